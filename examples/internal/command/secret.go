package command

import (
	"io"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Redactor hides the passwords of addresses in printed text.
type Redactor struct{ secrets *regexp.Regexp }

// keyword matches the password in addresses such as "host=a password='b c'" and in queries.
var keyword = regexp.MustCompile(`(?i)\b(?:ssl)?password\s*=\s*('(?:[^'\\]|\\.)*'|[^\s&]+)`)

// userinfo matches the password of a URL, even if the URL cannot be parsed.
var userinfo = regexp.MustCompile(`//[^/?#\s]*?:(.*)@`)

// Redact returns a Redactor for the passwords of addresses: URLs, comma-separated lists of
// URLs, and PostgreSQL connection strings.
func Redact(addresses ...string) Redactor {
	var secrets []string
	for _, address := range addresses {
		for _, pattern := range []*regexp.Regexp{keyword, userinfo} {
			for _, found := range pattern.FindAllStringSubmatch(address, -1) {
				secrets = append(secrets, found[1], strings.Trim(found[1], "'"))
			}
		}
		for one := range strings.SplitSeq(address, ",") {
			if u, err := url.Parse(one); err == nil {
				password, _ := u.User.Password()
				secrets = append(secrets, password)
			}
			for _, found := range userinfo.FindAllStringSubmatch(one, -1) {
				secrets = append(secrets, found[1])
			}
		}
		if c, err := pgconn.ParseConfig(address); err == nil && address != "" {
			secrets = append(secrets, c.Password)
		}
	}
	var forms []string
	for _, secret := range secrets {
		quoted := strconv.Quote(secret)
		for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret), url.UserPassword("", secret).String()[1:], quoted[1 : len(quoted)-1]} {
			if form != "" && !slices.Contains(forms, form) {
				forms = append(forms, form)
			}
		}
	}
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) }) // longest first, so that a substring does not hide only a part
	if len(forms) == 0 {
		return Redactor{}
	}
	for i, form := range forms {
		forms[i] = regexp.QuoteMeta(form)
		if short.MatchString(form) {
			forms[i] = `\b` + form + `\b`
		}
	}
	return Redactor{regexp.MustCompile(strings.Join(forms, "|"))}
}

// short matches passwords that occur within common words. They are hidden only as whole
// words: otherwise text without its letters p would reveal the password "p".
var short = regexp.MustCompile(`^\w{1,3}$`)

func (r Redactor) hide(text string) string {
	if r.secrets == nil {
		return text
	}
	return r.secrets.ReplaceAllString(text, "xxxxx")
}

// Error returns err with passwords hidden in its text, or nil if err is nil.
func (r Redactor) Error(err error) error {
	if err == nil {
		return nil
	}
	return &redacted{err, r.hide(err.Error())}
}

type redacted struct {
	err  error
	text string
}

func (e *redacted) Error() string { return e.text }
func (e *redacted) Unwrap() error { return e.err }

// Writer returns a writer to w that hides the passwords within each Write.
func (r Redactor) Writer(w io.Writer) io.Writer { return &redactor{w, r} }

type redactor struct {
	w io.Writer
	r Redactor
}

func (w *redactor) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.w, w.r.hide(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
