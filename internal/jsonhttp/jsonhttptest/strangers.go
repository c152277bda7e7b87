// Package jsonhttptest is shared by the tests of all control servers: it calls a server as
// a page in a browser on the same machine would, and requires that every such call is
// rejected.
package jsonhttptest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/jsonhttp"
)

// RefusesStrangers fails the test unless the server at base, a loopback address, rejects
// what other sites' pages can make a browser send to path, which must accept POST: posts
// that the browser marks as cross-site, and any request under a name that the page's owner
// resolves to a loopback address (DNS rebinding), with a dot or, through a search domain,
// without one, or under an address that is not loopback. The same request without these
// marks must reach the handler, whatever that says about its body.
func RefusesStrangers(t *testing.T, base, path string) {
	t.Helper()
	call := func(method, host string, header map[string]string) (int, []byte) {
		req, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(`{"no": "such field"}`))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range header {
			req.Header.Set(name, value)
		}
		if host != "" {
			req.Host = host
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, body
	}
	for _, c := range []struct {
		method, host string
		header       map[string]string
	}{
		{"POST", "", map[string]string{"Origin": "http://evil.example"}},
		{"POST", "", map[string]string{"Origin": "null"}},
		{"POST", "", map[string]string{"Sec-Fetch-Site": "cross-site"}},
		{"POST", "", map[string]string{"Sec-Fetch-Site": "same-site"}},
		{"POST", "", map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example", "Content-Type": "text/plain"}},
		{"POST", "evil.example:15980", map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "http://evil.example:15980"}},
		{"POST", "evil.example", nil},
		{"GET", "evil.example", nil},
		{"POST", "evil:15991", nil},
		{"POST", "evil", nil},
		{"POST", "localhost.evil", nil},
		{"POST", "10.0.0.1", nil},
		{"POST", "[2001:db8::1]:15991", nil},
		{"POST", "[::ffff:10.0.0.1]", nil},
	} {
		status, body := call(c.method, c.host, c.header)
		var p jsonhttp.Problem
		if err := json.Unmarshal(body, &p); status != http.StatusForbidden || err != nil || p.Error == "" {
			t.Errorf("%s %s as %q with %v: %d %q, want 403 and a reason", c.method, path, c.host, c.header, status, body)
		}
	}
	for _, host := range []string{"", "localhost:1234", "LocalHost", "[::1]:99", "[::1]", "127.0.0.2"} {
		if status, body := call("POST", host, nil); status == http.StatusForbidden {
			t.Errorf("%s as %q: %d %q", path, host, status, body)
		}
	}
}
