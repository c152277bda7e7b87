package variables

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
)

const page = `<h2 id="discovery">discovery</h2>
<td>not a variable</td>
<h2 id="envvars">Environment variables</h2>
<table class="envvars">
<tbody>
<tr id='pilot-a'>
<td><a href='#pilot-a'><code>PILOT_A</code></a></td>
<td>Time Duration</td>
<td><code>100ms</code></td>
<td>Waits &lt;long&gt; &amp;amp; &#39;so&#39; &#34;on&#34;.</td>
</tr>
<tr id='pilot-b' class='deprecated'>
<td><a href='#pilot-b'><code>PILOT_B</code></a></td>
<td>String</td>
<td><code></code></td>
<td>Two
lines.</td>
</tr>
</tbody>
</table>
<h2 id="metrics">Exported metrics</h2>
<tr><td><code>pilot_xds</code></td><td><code>LastValue</code></td><td>How many.</td></tr>
`

func TestPage(t *testing.T) {
	known, err := parsePage([]byte(page))
	must.OK(t, err)
	want := []Variable{
		{Name: "PILOT_A", Default: "100ms"},
		{Name: "PILOT_B"},
	}
	if !slices.Equal(known.Variables, want) {
		t.Errorf("%+v", known.Variables)
	}
	if len(known.Metrics) != 1 || known.Metrics[0] != "pilot_xds" {
		t.Errorf("%+v", known.Metrics)
	}
	if _, ok := known.Variable("PILOT_A"); !ok {
		t.Error("PILOT_A is not found")
	}
	if _, ok := known.Variable("PILOT_C"); ok {
		t.Error("PILOT_C is found")
	}
}

// A page in another format is an error, never an istiod without variables.
func TestOtherPage(t *testing.T) {
	for name, text := range map[string]string{
		"empty":      "",
		"no table":   "<h2 id=\"discovery\">discovery</h2>\n",
		"a cell off": strings.Replace(page, "<td>Time Duration</td>\n", "", 1),
	} {
		if known, err := parsePage([]byte(text)); err == nil {
			t.Errorf("%s: %+v", name, known)
		}
	}
}

func FuzzPage(f *testing.F) {
	f.Add([]byte(page))
	f.Add([]byte("<h2 id=\"envvars\">\n<tr id='a'>\nx\n<td>a</td>\n</tr>\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		known, err := parsePage(text)
		if err == nil && len(known.Variables) == 0 {
			t.Error("no variables, and no error")
		}
	})
}

func TestAsk(t *testing.T) {
	dir := t.TempDir()
	write := func(name, script string) string {
		path := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(path, []byte(script), 0o700))
		return path
	}
	must.OK(t, os.WriteFile(filepath.Join(dir, "page.html"), []byte(page), 0o600))
	good := write("good", "#!/bin/sh\ncase $1 in\ncollateral) /bin/cp "+dir+"/page.html \"$4\"/pilot.html"+
		" ;;\nversion) echo client version: 9.9 ;;\nesac\n")
	known, err := Ask(context.Background(), good)
	if err != nil || known.Version != "9.9" || len(known.Variables) != 2 || known.Source != good {
		t.Errorf("%+v, %v", known, err)
	}
	for name, path := range map[string]string{
		"not there":    filepath.Join(dir, "none"),
		"a folder":     dir,
		"fails":        write("fails", "#!/bin/sh\necho no such command >&2; exit 1\n"),
		"no page":      write("nopage", "#!/bin/sh\n"),
		"another page": write("other", "#!/bin/sh\necho hello >$4/a.html\n"),
		"a link":       write("link", "#!/bin/sh\n/bin/ln -s "+dir+"/page.html $4/a.html\n"),
	} {
		_, err := Ask(context.Background(), path)
		if errs.Code(err) != errs.CodeUsage || errs.Hint(err) == "" {
			t.Errorf("%s: %v (%d, %q)", name, err, errs.Code(err), errs.Hint(err))
		}
	}
}

// A program that prints endlessly or leaves children behind takes neither memory nor time
// beyond the context.
func TestRunBounds(t *testing.T) {
	program := filepath.Join(t.TempDir(), "istiod")
	must.OK(t, os.WriteFile(program, []byte("#!/bin/sh\ncase $1 in\nprints) /usr/bin/head -c 20000000 /dev/zero"+
		" ;;\nhangs) /bin/sleep 60 & echo $! >\"$2\"; wait ;;\nesac\n"), 0o755))
	dir := t.TempDir()
	if out, err := run(t.Context(), dir, program, "prints"); err != nil || len(out) != maxOutput {
		t.Errorf("%d bytes, %v", len(out), err)
	}
	var s head
	for range 100 {
		if n, err := s.Write(make([]byte, maxOutput/10)); n != maxOutput/10 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	if len(s.kept) != maxOutput {
		t.Errorf("%d bytes are kept", len(s.kept))
	}
	child := filepath.Join(dir, "child")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := run(ctx, dir, program, "hangs", child)
		ended <- err
	}()
	var pid int
	for pid == 0 {
		text, _ := os.ReadFile(child)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		runtime.Gosched()
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	for syscall.Kill(pid, 0) == nil {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(state), ") Z ") {
			break // ended, but not yet waited for
		}
		runtime.Gosched()
	}
}
