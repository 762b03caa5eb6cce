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

// Redactor hides the passwords of addresses in text that is printed.
type Redactor struct{ replacer *strings.Replacer }

// keyword finds the password in addresses such as "host=a password='b c'" and in queries.
var keyword = regexp.MustCompile(`(?i)\b(?:ssl)?password\s*=\s*('(?:[^'\\]|\\.)*'|[^\s&]+)`)

// userinfo finds the password of a URL, also of one that cannot be parsed.
var userinfo = regexp.MustCompile(`//[^/?#\s]*?:(.*)@`)

// Redact returns a Redactor for the passwords of addresses: URLs, lists of URLs separated
// by commas, and what PostgreSQL takes.
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
	var pairs []string
	for _, secret := range secrets {
		quoted := strconv.Quote(secret)
		for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret), url.UserPassword("", secret).String()[1:], quoted[1 : len(quoted)-1]} {
			if form != "" && !slices.Contains(pairs, form) {
				pairs = append(pairs, form)
			}
		}
	}
	slices.SortFunc(pairs, func(a, b string) int { return len(b) - len(a) }) // a part must not spoil the whole
	var replace []string
	for _, form := range pairs {
		replace = append(replace, form, "xxxxx")
	}
	return Redactor{strings.NewReplacer(replace...)}
}

// Error returns err with a text that hides the passwords; nil for nil.
func (r Redactor) Error(err error) error {
	if err == nil {
		return nil
	}
	return &redacted{err, r.replacer.Replace(err.Error())}
}

type redacted struct {
	err  error
	text string
}

func (e *redacted) Error() string { return e.text }
func (e *redacted) Unwrap() error { return e.err }

// Writer returns a writer to w that hides the passwords in each piece that is written.
func (r Redactor) Writer(w io.Writer) io.Writer { return &redactor{w, r} }

type redactor struct {
	w io.Writer
	r Redactor
}

func (w *redactor) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.w, w.r.replacer.Replace(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
