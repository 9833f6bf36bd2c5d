package notation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/notaryproject/notation-core-go/revocation/crl"
	"golang.org/x/crypto/ocsp"
)

const (
	kindOCSP = "ocsp"
	kindCRL  = "crl"
)

// errPending ends a request that the caller has yet to make.
var errPending = errors.New("not fetched yet")

// Need is a request that the caller should make.
type Need struct {
	Kind   string `json:"kind"` // ocsp or crl
	Method string `json:"method"`
	URL    string `json:"url"`
	Body   []byte `json:"body,omitempty"`
}

// Fetched is how a request that was needed ended: by a response, or an error.
type Fetched struct {
	Method  string `json:"method"`
	URL     string `json:"url"`
	Body    []byte `json:"body,omitempty"`
	Status  int    `json:"status"`
	Content []byte `json:"content"`
	Error   string `json:"error"`
}

// network answers requests from what was fetched and records the others.
type network struct {
	fetched map[string]Fetched

	mutex sync.Mutex
	needs []Need
	until time.Time // what was used is out of date then
}

func newNetwork(fetched []Fetched) *network {
	n := &network{fetched: map[string]Fetched{}}
	for _, one := range fetched {
		n.fetched[key(one.Method, one.URL, one.Body)] = one
	}
	return n
}

func key(method, url string, body []byte) string {
	return fmt.Sprintf("%s\x00%s\x00%s", method, url, body)
}

func (n *network) client(kind string) *http.Client {
	return &http.Client{
		Transport: transport{network: n, kind: kind},
		// The caller has followed redirects, or not.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// pending returns what to fetch now. Lists come after the answers that may make them unnecessary.
func (n *network) pending() []Need {
	answers := slices.DeleteFunc(slices.Clone(n.needs), func(need Need) bool { return need.Kind != kindOCSP })
	if len(answers) > 0 {
		return answers
	}
	return n.needs
}

type transport struct {
	network *network
	kind    string
}

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	var body []byte
	if request.Body != nil {
		defer request.Body.Close()
		var err error
		if body, err = io.ReadAll(request.Body); err != nil {
			return nil, err
		}
	}
	need := Need{Kind: t.kind, Method: request.Method, URL: request.URL.String(), Body: body}
	t.network.mutex.Lock()
	defer t.network.mutex.Unlock()
	answer, ok := t.network.fetched[key(need.Method, need.URL, need.Body)]
	switch {
	case !ok:
		known := slices.ContainsFunc(t.network.needs, func(other Need) bool {
			return key(other.Method, other.URL, other.Body) == key(need.Method, need.URL, need.Body)
		})
		if !known {
			t.network.needs = append(t.network.needs, need)
		}
		return nil, errPending
	case answer.Error != "":
		return nil, errors.New(answer.Error)
	}
	if t.kind == kindOCSP {
		if status, err := ocsp.ParseResponse(answer.Content, nil); err == nil {
			t.network.use(status.NextUpdate)
		}
	}
	return &http.Response{
		StatusCode:    answer.Status,
		Status:        fmt.Sprintf("%d %s", answer.Status, http.StatusText(answer.Status)),
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        http.Header{},
		Body:          io.NopCloser(bytes.NewReader(answer.Content)),
		ContentLength: int64(len(answer.Content)),
		Request:       request,
	}, nil
}

// use notes when something that was used says that it will be out of date.
func (n *network) use(until time.Time) {
	if !until.IsZero() && (n.until.IsZero() || until.Before(n.until)) {
		n.until = until
	}
}

// lists fetches revocation lists; the large ones are too costly to be read twice.
type lists struct {
	inner   crl.Fetcher
	network *network
}

// Fetch returns a list and its delta (crl.Fetcher).
func (l lists) Fetch(ctx context.Context, url string) (*crl.Bundle, error) {
	bundle, err := l.inner.Fetch(ctx, url)
	if err != nil {
		return nil, err
	}
	l.network.mutex.Lock()
	defer l.network.mutex.Unlock()
	l.network.use(bundle.BaseCRL.NextUpdate)
	if bundle.DeltaCRL != nil {
		l.network.use(bundle.DeltaCRL.NextUpdate)
	}
	return bundle, nil
}
