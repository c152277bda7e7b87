package cli

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/klog/v2"

	"github.com/meshtrial/meshtrial/testing/must"
)

// If the answers of an API server break off, client-go logs an error itself. That log must not
// reach the terminal: the command's error says what was wrong.
func TestLibrariesAreSilent(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, `{"kind"`)
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: {}}]}`, server.URL)
	must.OK(t, os.WriteFile(kubeconfig, []byte(text), 0o600))
	run := func(main func([]string, io.Writer) error) (raw, said string) {
		was := os.Stderr
		r, w, err := os.Pipe()
		must.OK(t, err)
		os.Stderr = w // klog writes to it
		defer func() { os.Stderr = was }()
		read := make(chan string)
		go func() { all, _ := io.ReadAll(r); read <- string(all) }()
		var stderr bytes.Buffer
		if err := main([]string{"cluster", "status", "--kubeconfig", kubeconfig}, &stderr); err == nil {
			t.Error("no error")
		}
		klog.Flush()
		w.Close()
		return <-read, stderr.String()
	}
	klog.ClearLogger()
	raw, _ := run(func(args []string, stderr io.Writer) error {
		return Run(t.Context(), args, &Env{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: stderr})
	})
	if !strings.Contains(raw, "Unexpected error when reading response body") {
		t.Errorf("without Main klog writes %q: this test cannot fail", raw)
	}
	raw, said := run(func(args []string, stderr io.Writer) error {
		if code := Main(args, strings.NewReader(""), io.Discard, stderr); code != 0 {
			return fmt.Errorf("exit code %d", code)
		}
		return nil
	})
	if raw != "" || !strings.Contains(said, "meshtrial: ") {
		t.Errorf("raw %q, said %q", raw, said)
	}
}
