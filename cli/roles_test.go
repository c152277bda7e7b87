package cli

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/meshtrial/meshtrial/lab/doctor"
)

func TestRoleScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/roles",
		Setup: func(env *testscript.Env) error {
			address, err := freeAddress()
			env.Setenv("CONTROL", address)
			return err
		},
		Cmds: scriptCommands{
			"exits": exits,
			// doctor ARGS...: exits with 0, or with 1 if a line is a failure.
			"doctor": func(ts *testscript.TestScript, _ bool, args []string) {
				failed := ts.Exec("meshtrial", append([]string{"doctor"}, args...)...) != nil
				text := ts.ReadFile("stdout")
				lines := strings.Contains(text, "\nfailure ") || strings.HasPrefix(text, "failure ") || strings.Contains(text, `"worst": "failure"`)
				if failed != lines {
					ts.Fatalf("failed: %v, failures printed: %v", failed, lines)
				}
			},
			// healthy: waits until the program in the background answers at $CONTROL.
			"healthy": func(ts *testscript.TestScript, _ bool, _ []string) {
				for range 1200 {
					resp, err := http.Get("http://" + ts.Getenv("CONTROL") + "/healthz")
					if err == nil {
						resp.Body.Close()
						return
					}
					time.Sleep(50 * time.Millisecond)
				}
				ts.Fatalf("nothing answers at %s", ts.Getenv("CONTROL"))
			},
		},
	})
}

// freeAddress returns an address without a listener. It uses a loopback address that no other
// process uses, so that none takes the port in the meantime.
func freeAddress() (string, error) {
	pid := os.Getpid()
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 64+pid>>16&63, pid>>8&255, pid&255))
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func TestDoctorLinesArePrinted(t *testing.T) {
	lines := []doctor.Line{{Name: "cores", Status: doctor.OK, Detail: "8"}, {Name: "root", Status: doctor.OK, Detail: "user 0"},
		{Name: "disk", Status: doctor.Warning, Detail: "small", Mend: "clean up"}}
	want := "ok       cores  8\nok       root   user 0\nwarning  disk   small\n                fix: clean up\n2 ok, 1 warning, 0 failures\n"
	if got := linesText(lines); got != want {
		t.Errorf("%q", got)
	}
}
