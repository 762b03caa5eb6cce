package manifests

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// URLOptions are the options of [URL]. Zero fields and a nil *URLOptions mean the defaults.
type URLOptions struct {
	// Client sends the requests. It determines TLS, proxies, redirects and timeouts. The default
	// has a timeout of 10 s.
	Client *http.Client
	// Header is added to each request, for example Authorization.
	Header http.Header
	// MaxBytes limits the size of the document. Default: 10 MiB.
	MaxBytes int
}

func (o URLOptions) withDefaults() URLOptions {
	if o.Client == nil {
		o.Client = &http.Client{Timeout: defaultTimeout}
	}
	o.Header = o.Header.Clone()
	o.MaxBytes = cmp.Or(o.MaxBytes, defaultMaxBytes)
	return o
}

const (
	defaultMaxBytes = 10 << 20
	defaultTimeout  = 10 * time.Second
)

// remote is a Source.
type remote struct {
	url, name string
	options   URLOptions

	mu   sync.Mutex
	last []byte // the last document; etag and date are its validators
	etag string
	date string // Last-Modified
}

// URL returns a source that fetches a file of one or more documents with GET. It sends the server's
// last ETag and Last-Modified as If-None-Match and If-Modified-Since. A response other than 304, or
// 200 with a body, is an error. The source's name is the URL without user, query and fragment.
func URL(text string, o *URLOptions) (Source, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("manifests: the URL is malformed") // the text may contain a password
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("manifests: %.80q is not an absolute http or https URL", u.Redacted())
	}
	bare := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	r := &remote{url: u.String(), name: bare.String()}
	if o != nil {
		r.options = *o
	}
	r.options = r.options.withDefaults()
	if r.options.MaxBytes < 0 {
		return nil, fmt.Errorf("manifests: URLOptions.MaxBytes is %d: it must not be negative", r.options.MaxBytes)
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
		return nil, errors.New("the request is invalid") // err may contain a password
	}
	for name, values := range r.options.Header {
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
	response, err := r.options.Client.Do(request)
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
	data, err := io.ReadAll(io.LimitReader(response.Body, int64(r.options.MaxBytes)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("GET %s: %w", r.name, err)
	case len(data) > r.options.MaxBytes:
		return nil, fmt.Errorf("GET %s: the document has more than %d bytes", r.name, r.options.MaxBytes)
	case len(data) == 0:
		return nil, fmt.Errorf("GET %s: the document is empty; to register no objects, send a list without items", r.name)
	}
	r.last, r.etag, r.date = data, response.Header.Get("ETag"), response.Header.Get("Last-Modified")
	return r.files(), nil
}

func (r *remote) files() []File { return []File{{Name: r.name, Data: r.last}} }
