package sources

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// URLOptions tunes [URL]. Zero fields, and a nil *URLOptions, take the defaults;
// negative ones are refused with [namespace.ErrInvalid].
type URLOptions struct {
	// Client sends the requests: TLS, proxies, redirects and timeouts are its business.
	// The default is a plain one that gives up after 10 s.
	Client *http.Client
	// Header is sent with each request, such as an Authorization.
	Header http.Header
	// MaxBytes bounds the document; default 10 MiB.
	MaxBytes int
}

const (
	defaultMaxBytes = 10 << 20
	defaultTimeout  = 10 * time.Second
)

// remote is a Source.
type remote struct {
	url, name string
	client    *http.Client
	header    http.Header
	most      int

	mu   sync.Mutex
	last []byte // what the validators below are of
	etag string
	date string // Last-Modified
}

// URL returns a source of one document, or stream of documents, that is fetched by
// GET, again and again, with If-None-Match and If-Modified-Since where the server
// gives something for it. Any answer but 200 with a body, and 304, is an error. Its
// name is the URL without user, query and fragment. What is not an absolute http or
// https URL is [namespace.ErrInvalid].
func URL(text string, o *URLOptions) (Source, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, invalid("the URL cannot be parsed") // not repeated: it may hold a password
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, invalid("%.80q is not an absolute http or https URL", u.Redacted())
	}
	bare := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	r := &remote{url: u.String(), name: bare.String(), most: defaultMaxBytes}
	if o != nil {
		if o.MaxBytes < 0 {
			return nil, invalid("option MaxBytes is negative")
		}
		r.client, r.header, r.most = o.Client, o.Header.Clone(), orDefault(o.MaxBytes, defaultMaxBytes)
	}
	if r.client == nil {
		r.client = &http.Client{Timeout: defaultTimeout}
	}
	return r, nil
}

// Name implements [Source].
func (r *remote) Name() string { return r.name }

// Read implements [Source].
func (r *remote) Read(ctx context.Context) ([]File, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return nil, errors.New("the request cannot be made")
	}
	for name, values := range r.header {
		request.Header[name] = values
	}
	if request.Header.Get("Accept") == "" {
		request.Header.Set("Accept", "application/yaml, application/json, */*;q=0.5")
	}
	if r.last != nil && r.etag != "" {
		request.Header.Set("If-None-Match", r.etag)
	}
	if r.last != nil && r.date != "" {
		request.Header.Set("If-Modified-Since", r.date)
	}
	response, err := r.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusNotModified && r.last != nil {
		return r.files(), nil
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: the server answered %s", r.name, response.Status)
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, int64(r.most)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("GET %s: %w", r.name, err)
	case len(data) > r.most:
		return nil, fmt.Errorf("GET %s: the document has more than %d bytes", r.name, r.most)
	case len(data) == 0:
		return nil, fmt.Errorf("GET %s: the document is empty: send a list without items to have none", r.name)
	}
	r.last, r.etag, r.date = data, response.Header.Get("ETag"), response.Header.Get("Last-Modified")
	return r.files(), nil
}

func (r *remote) files() []File { return []File{{Name: r.name, Data: r.last}} }
