package node_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/observe/profile/node"
	"github.com/meshtrial/meshtrial/observe/profile/perf"
	"github.com/meshtrial/meshtrial/testing/leakcheck"
	"github.com/meshtrial/meshtrial/testing/must"
)

const container = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// proc creates a /proc with two processes of the container, and others.
func proc(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	write := func(pid, cgroup, comm string) {
		dir := filepath.Join(root, pid)
		must.OK(t, os.MkdirAll(dir, 0o755))
		for name, text := range map[string]string{"cgroup": cgroup, "comm": comm + "\n"} {
			must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		}
	}
	write("1", "0::/init.scope\n", "init")
	write("200", "0::/kubepods/burstable/podabc/"+container+"\n", "envoy")
	write("30", "0::/kubepods/burstable/podabc/"+container+"\n", "pilot-agent")
	write("31", "0::/kubepods/burstable/podabc/ffff"+container[4:]+"\n", "other")
	write("self", "0::/kubepods/burstable/podabc/"+container+"\n", "x")
	return root
}

func TestProcesses(t *testing.T) {
	root := proc(t)
	got, err := node.Processes(root, "containerd://"+container)
	if err != nil || len(got) != 2 || got[0] != (node.Process{PID: 30, Name: "pilot-agent"}) || got[1] != (node.Process{PID: 200, Name: "envoy"}) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := node.Processes(root, "containerd://"+strings.Repeat("e", 64)); !errors.Is(err, perf.ErrGone) {
		t.Errorf("no such container: %v", err)
	}
	for _, bad := range []string{"", "../../etc", "containerd://"} {
		if _, err := node.Processes(root, bad); errs.Code(err) != errs.CodeUsage {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// The role serves requests with its token, and rejects invalid ones.
func TestServer(t *testing.T) {
	leakcheck.Goroutines(t)
	if _, err := node.New(node.Options{Control: "127.0.0.1:0"}); err == nil {
		t.Error("a role without token")
	}
	server, err := node.New(node.Options{Control: "127.0.0.1:0", Token: "secret", ProcRoot: proc(t),
		Tool: perf.Tool{Path: "/nonexistent/perf"}})
	must.OK(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	http := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	client := node.Client{HTTPClient: http, BaseURL: "http://" + server.Address(), Token: "secret"}
	if err := client.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	request := node.Request{ContainerID: "containerd://" + container, Hz: 99, Seconds: 1, Graph: perf.GraphFP}
	stranger := client
	stranger.Token = "guess"
	if _, err := stranger.Take(t.Context(), request); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("a stranger: %v", err)
	}
	if _, err := client.Take(t.Context(), request); err == nil || !strings.Contains(err.Error(), perf.ErrMissing.Error()) {
		t.Errorf("a node without perf: %v", err)
	}
	for name, change := range map[string]func(*node.Request){
		"no length":          func(r *node.Request) { r.Seconds = 0 },
		"too long":           func(r *node.Request) { r.Seconds = 1e9 },
		"no rate":            func(r *node.Request) { r.Hz = 0 },
		"a path":             func(r *node.Request) { r.ContainerID = "../x" },
		"a graph of no kind": func(r *node.Request) { r.Graph = "x" },
	} {
		bad := request
		change(&bad)
		if _, err := client.Take(t.Context(), bad); err == nil || !strings.Contains(err.Error(), "400") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
