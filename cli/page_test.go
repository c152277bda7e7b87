package cli

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/must"
	"github.com/meshtrial/meshtrial/testing/runtest"
)

// The address on standard error serves the runs until the command is interrupted.
func TestPage(t *testing.T) {
	folder := t.TempDir()
	runtest.Copy(t, "data-plane", filepath.Join(folder, "one"), "r", runtest.All)
	var out, said lockedBuffer
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, []string{"page", folder}, &Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &said})
	}()
	var address []string
	eventually.Holds(t, "an address is printed", func() bool {
		address = regexp.MustCompile(`(?m)^page: (http://127\.0\.0\.1:\d+/\?token=\w+)$`).FindStringSubmatch(said.String())
		return address != nil
	})
	jar, err := cookiejar.New(nil)
	must.OK(t, err)
	browser := &http.Client{Jar: jar}
	entered, err := browser.Get(address[1])
	must.OK(t, err)
	entered.Body.Close()
	answer, err := browser.Get(entered.Request.URL.String() + "page.json")
	must.OK(t, err)
	document, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	must.OK(t, err)
	contains(t, string(document), `"name":"one"`, `"study":"recorded-data-plane"`, `"quick"`)
	cancel()
	if err := <-done; err != nil || out.String() != "" {
		t.Errorf("ends with %v, %q", err, out.String())
	}
}

func TestPageRefuses(t *testing.T) {
	for _, args := range [][]string{{"page", "nowhere"}, {"page", "--listen", "nobody:x"}, {"page", "--listen", "0.0.0.0:0"}} {
		_, _, err := runIn(t.Context(), args...)
		if errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" && args[1] == "nowhere" {
			t.Errorf("%v: %v", args, err)
		}
	}
}
