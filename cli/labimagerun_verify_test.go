//go:build verify

package cli_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// moreFiles runs runc with more open files than the 1,024 that ctr allows; Docker allows a million.
const moreFiles = `#!/bin/sh
previous=
for a; do
  if [ "$previous" = --bundle ]; then
    sed -i 's/"RLIMIT_NOFILE","hard":1024,"soft":1024/"RLIMIT_NOFILE","hard":16384,"soft":16384/' "$a/config.json"
  fi
  previous=$a
done
exec runc "$@"
`

// host is a containerd of the test's own that has the image.
type host struct{ dir string }

func (h host) path(name string) string { return filepath.Join(h.dir, name) }

func (h host) ctr(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "ctr", append([]string{"--address", h.path("containerd.sock")}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // which ctr passes on
	return cmd
}

// imageHost starts containerd and imports the image. It skips the test where there is none.
func imageHost(t *testing.T) host {
	t.Helper()
	for _, program := range []string{"containerd", "ctr", "runc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the image is tried with the host's containerd: apt-get install containerd (%v)", err)
		}
	}
	h := host{t.TempDir()}
	must.OK(t, must.Err(exec.Command(labtest.Program(t), "lab", "image", "--out", h.path("image.tar")).Output()))
	must.OK(t, os.WriteFile(h.path("runc"), []byte(moreFiles), 0o755))
	must.OK(t, os.WriteFile(h.path("config.toml"), []byte("version = 2\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n"), 0o600))
	daemon := exec.Command("containerd", "--config", h.path("config.toml"), "--root", h.path("root"), "--state", h.path("state"), "--address", h.path("containerd.sock"))
	must.OK(t, daemon.Start())
	t.Cleanup(func() {
		_ = daemon.Process.Signal(syscall.SIGTERM)
		_ = daemon.Wait()
	})
	eventually.Succeeds(t, time.Minute, "containerd answers", func() error { return h.ctr(t.Context(), "version").Run() })
	out, err := h.ctr(t.Context(), "images", "import", h.path("image.tar")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, folder := range []string{"results", "scratch"} {
		must.OK(t, os.Mkdir(h.path(folder), 0o755))
	}
	return h
}

// run runs a command in a container with these options of ctr, and returns its exit code and what
// it printed.
func (h host) run(ctx context.Context, t *testing.T, options, command string) (code int, said string) {
	t.Helper()
	args := append([]string{"run", "--rm", "--runc-binary", h.path("runc")}, strings.Fields(h.expand(options))...)
	args = append(args, "docker.io/meshtrial/lab:latest", "test", "/usr/local/bin/meshtrial")
	cmd := h.ctr(ctx, append(args, strings.Fields(command)...)...)
	out, _ := cmd.CombinedOutput() // its exit code says all
	code = cmd.ProcessState.ExitCode()
	t.Logf("%s: %s: %d\n%s", options, command, code, out)
	return code, string(out)
}

// expand gives a container's options, by name, in ctr's words.
func (h host) expand(options string) string {
	return strings.NewReplacer(
		"privileged", "--privileged --mount type=cgroup,src=cgroup,dst=/sys/fs/cgroup,options=rw",
		"results", "--mount type=bind,src="+h.path("results")+",dst=/results,options=rbind:rw",
		"scratch", "--mount type=bind,src="+h.path("scratch")+",dst=/meshtrial,options=rbind:rw",
		"small", "--mount type=tmpfs,src=tmpfs,dst=/results,options=size=4m",
	).Replace(options)
}

// The image runs a study in a privileged container, and what a container lacks is named.
func TestImageRuns(t *testing.T) {
	h := imageHost(t)
	for _, c := range []struct{ options, want string }{
		{"results scratch", "--privileged"},
		{"privileged results", "-v meshtrial:/meshtrial"},
		{"privileged small scratch", "no space left for the run directory"},
		{"privileged scratch --read-only", "cannot be written"}, // /results is in the root
	} {
		if code, said := h.run(t.Context(), t, c.options, "run quick"); code != 2 || !strings.Contains(said, c.want) {
			t.Errorf("%s: exit code %d, want 2 and %q", c.options, code, c.want)
		}
	}
	if code, _ := h.run(t.Context(), t, "privileged results scratch --read-only", "lab up"); code != 0 {
		t.Errorf("lab up: exit code %d", code)
	}
	// How good the figures are depends on what else runs here.
	if code, _ := h.run(t.Context(), t, "privileged results scratch", "run quick --out /results/run --set blocks.min=2 --set blocks.max=2"); code != 0 && code != 4 {
		t.Errorf("run: exit code %d", code)
	}
	must.OK(t, must.Err(os.Stat(h.path("results/run/report.html"))))
	t.Run("stopped", h.stop)
}

// stop tells a run in a container to end, which it does in good order.
func (h host) stop(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var code int
	var said string
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		code, said = h.run(ctx, t, "privileged results scratch", "run quick --out /results/stopped")
	}()
	eventually.Succeeds(t, 5*time.Minute, "a trial is kept", func() error {
		info, err := os.Stat(h.path("results/stopped/trials.jsonl"))
		if err == nil && info.Size() == 0 {
			err = errors.New("none yet")
		}
		return err
	})
	stop()
	<-ended
	if code != 130 || !strings.Contains(said, "continue with: meshtrial run --resume /results/stopped") {
		t.Errorf("exit code %d", code)
	}
}
