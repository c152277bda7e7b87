//go:build verify

package cli_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/run/detached"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/run/verdict"
	"github.com/meshtrial/meshtrial/testing/eventually"
	"github.com/meshtrial/meshtrial/testing/labtest"
	"github.com/meshtrial/meshtrial/testing/must"
)

// A block of faultsStudy has three trials, and each fault hits a different one.
const (
	faultsStudy = `
name: faults
question: Does a run go on, whatever becomes of its pods, its volume and its API server?
mesh: none
settings: {sidecars: none, rate: 100, connections: 4, generators: 2}
factors: {payload: [1KiB, 2KiB]}
baseline: {payload: 1KiB}
warmup: {min: 1s, max: 3s}
window: 2s
interval: 1s
blocks: {min: 10, max: 10, limit: 40m, redeploy: 0}
`
	faultsTrials = 30
)

// away is how long the API server is unreachable.
const away = 20 * time.Second

// volumeSize is the capacity of the volume of TestDetachedVolume, in bytes.
const volumeSize = 16 << 20

// hearing collects what a command prints, and remembers how much of it was searched.
type hearing struct {
	mu   sync.Mutex
	said []byte
	from int
}

func (h *hearing) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said = append(h.said, b...)
	return len(b), nil
}

func (h *hearing) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.said)
}

// next reports whether text was printed after the last match.
func (h *hearing) next(text string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := strings.Index(string(h.said[h.from:]), text)
	if i >= 0 {
		h.from += i + len(text)
	}
	return i >= 0
}

// forget makes later searches ignore everything printed so far.
func (h *hearing) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.from = len(h.said)
}

// faulted is a detached run that is exposed to faults.
type faulted struct {
	m labtest.Machine
	l *local.Lab
	begunRun
	attached *hearing
	ended    <-chan struct{} // closed when attach ends
	code     func() int
}

// podsAtWork lists those of the selected pods that are not being deleted.
const podsAtWork = `go-template={{range .items}}{{if not .metadata.deletionTimestamp}}{{.metadata.namespace}} {{.metadata.name}} {{.spec.nodeName}} {{end}}{{end}}`

// at returns the first working pod that the kubectl arguments select, and its node.
func (f *faulted) at(t *testing.T, args ...string) (namespace, name, node string) {
	t.Helper()
	waitFor(t, "a pod at work", func() bool {
		out := labtest.Kubectl(t, f.l, "", append([]string{"get", "pods", "--field-selector", "status.phase=Running", "-o", podsAtWork}, args...)...)
		_, err := fmt.Sscan(out, &namespace, &name, &node)
		return err == nil
	})
	return namespace, name, node
}

// pod returns the run's working pod and its node.
func (f *faulted) pod(t *testing.T) (name, node string) {
	t.Helper()
	_, name, node = f.at(t, "-n", f.Namespace, "-l", "meshtrial.dev/part=run")
	return name, node
}

// evict evicts a pod as a drain does.
func (f *faulted) evict(t *testing.T, namespace, name string) {
	t.Helper()
	body := fmt.Sprintf(`{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": %q, "name": %q}}`, namespace, name)
	labtest.Kubectl(t, f.l, body, "create", "--raw", "/api/v1/namespaces/"+namespace+"/pods/"+name+"/eviction", "-f", "-")
}

// hears waits until attach prints text.
func (f *faulted) hears(t *testing.T, text string) {
	t.Helper()
	eventually.Within(t, 3*time.Minute, "attach says "+text, func() bool {
		select {
		case <-f.ended:
			t.Fatalf("attach has ended with exit code %d, and did not say %q:\n%s", f.code(), text, f.attached)
		default:
		}
		return f.attached.next(text)
	})
}

// now returns the state of the run.
func (f *faulted) now(t *testing.T) detached.Run {
	t.Helper()
	all := detachedRuns(t, f.m)
	if len(all) != 1 || all[0].Name != f.Run {
		t.Fatalf("runs: %+v", all)
	}
	return all[0]
}

// attach follows the run from now on.
func (f *faulted) attach(t *testing.T) {
	t.Helper()
	cmd := f.m.Command(t, "attach", f.Run)
	f.attached = &hearing{}
	cmd.Stdout, cmd.Stderr = f.attached, f.attached
	must.OK(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	f.ended, f.code = ended, func() int { return cmd.ProcessState.ExitCode() }
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
}

// fault is a fault that hits a run. If it ends the run's pod, the next pod continues, and attach
// with it.
type fault struct {
	name string
	pod  bool // ends the run's pod
	do   func(t *testing.T, f *faulted)
}

// faults lists the faults in the order in which they happen.
var faults = []fault{
	{"a generator is evicted", false, func(t *testing.T, f *faulted) {
		namespace, name, _ := f.at(t, "-A", "-l", mesh.AppLabel+"=client-plain")
		f.evict(t, namespace, name)
	}},
	{"the API server is away", false, func(t *testing.T, f *faulted) {
		pids := labtest.PIDs(f.l.ID(), "kube-apiserver")
		if len(pids) != 1 {
			t.Fatalf("API servers: %v", pids)
		}
		must.OK(t, unix.Kill(pids[0], unix.SIGSTOP))
		time.Sleep(away)
		must.OK(t, unix.Kill(pids[0], unix.SIGCONT))
	}},
	{"its pod is evicted", true, func(t *testing.T, f *faulted) {
		name, _ := f.pod(t)
		f.evict(t, f.Namespace, name)
	}},
	{"its node is drained", true, func(t *testing.T, f *faulted) {
		_, node := f.pod(t)
		labtest.Kubectl(t, f.l, "", "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s")
		labtest.Kubectl(t, f.l, "", "uncordon", node)
	}},
	{"its node dies and comes back", true, func(t *testing.T, f *faulted) {
		name, node := f.pod(t)
		f.m.Succeeds(t, "lab", "node", "kill", node)
		f.hears(t, " from node "+node+", which runs pod "+name)
		f.m.Succeeds(t, "lab", "node", "start", node)
	}},
}

// TestDetachedFaults: after each fault, a run whose results go to a volume of the cluster
// continues with the trials that it had, and attach with it. At its end all trials are fetched
// and nothing is left. (The API server only falls silent, which breaks no connection, and no node
// stays dead.)
func TestDetachedFaults(t *testing.T) {
	m := labtest.New(t)
	f := &faulted{m: m, l: m.Up(t, "--nodes", "3", "--mesh", "none")}
	f.begin(t)
	f.attach(t)
	f.meet(t, faults)
	f.end(t, faultsTrials, true)
}

// meet triggers the faults one after the other, each after a further trial, and waits for the end
// of attach.
func (f *faulted) meet(t *testing.T, all []fault) {
	t.Helper()
	waitFor(t, "a trial", func() bool { return f.now(t).Trials > 0 })
	for _, one := range all {
		before := f.now(t)
		want := before.Attempts
		if one.pod {
			want++
		}
		began := time.Now()
		f.attached.forget() // it repeats what it said about the previous fault
		one.do(t, f)
		waitFor(t, "a trial after: "+one.name, func() bool {
			now := f.now(t)
			if now.Trials < before.Trials {
				t.Fatalf("%s: of %d trials %d are left", one.name, before.Trials, now.Trials)
			}
			if now.Ended() {
				t.Fatalf("%s: the run is %s after %d trials (%s)\n%s", one.name, now.State, now.Trials, now.Error, f.attached)
			}
			return now.Attempts >= want && now.Trials > before.Trials+1 // one may have ended before the fault
		})
		now := f.now(t)
		if now.Attempts != want {
			t.Errorf("%s: %d pods so far, want %d\n%s", one.name, now.Attempts, want, f.attached)
		}
		t.Logf("%s: it went on after %.0f s, with %d trials", one.name, time.Since(began).Seconds(), now.Trials)
	}
	<-f.ended
	if code := f.code(); code != errs.CodeOK && code != errs.CodeInvalid { // figures may be invalid on a busy machine
		t.Fatalf("attach: exit code %d\n%s", code, f.attached)
	}
}

// volume is a PersistentVolumeClaim with its volume, a folder that all nodes of a local lab
// share.
const volume = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: results}
spec:
  accessModes: [ReadWriteMany]
  capacity: {storage: 1Gi}
  hostPath: {path: %q}
  claimRef: {name: results, namespace: team}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: results, namespace: team}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: ""
  volumeName: results
  resources: {requests: {storage: 1Gi}}
`

// begin starts the run. A quota that forbids the Job ends the command and leaves nothing behind.
// With a quota that forbids the Job's pods, attach ends with that reason; the pods start once the
// quota is gone.
func (f *faulted) begin(t *testing.T) {
	t.Helper()
	dir, err := f.l.ResultsDir()
	must.OK(t, err)
	labtest.Kubectl(t, f.l, "", "create", "namespace", "team")
	labtest.Kubectl(t, f.l, fmt.Sprintf(volume, dir), "apply", "-f", "-")
	args := []string{"run", labtest.Study(t, faultsStudy), "--detach", "--json", "--results", "pvc:team/results"}

	labtest.Kubectl(t, f.l, "", "-n", "team", "create", "quota", "small", "--hard=count/jobs.batch=0")
	code, said := f.m.Run(t, args...)
	if code == 0 || !strings.Contains(said, "create Job") || !strings.Contains(said, "quota") {
		t.Errorf("a quota without Jobs: exit code %d\n%s", code, said)
	}
	nothingDetached(t, f.l)
	labtest.Kubectl(t, f.l, "", "-n", "team", "delete", "quota", "small")

	labtest.Kubectl(t, f.l, "", "-n", "team", "create", "quota", "small", "--hard=pods=0")
	f.begunRun = detach(t, f.m, args...)
	if code, said := f.m.Run(t, "attach"); code != errs.CodeFailure || !strings.Contains(said, "cannot make its pods") || !strings.Contains(said, "exceeded quota") {
		t.Errorf("a quota without pods: exit code %d\n%s", code, said)
	}
	labtest.Kubectl(t, f.l, "", "-n", "team", "delete", "quota", "small")
}

// end fetches the run, which has the given number of trials, and removes it. evicts says that one
// of its faults evicted a generator.
func (f *faulted) end(t *testing.T, trials int, evicts bool) {
	t.Helper()
	fetched := filepath.Join(t.TempDir(), "fetched")
	f.m.Succeeds(t, "runs", "fetch", f.Run, "--to", fetched)
	run, notes, err := store.Load(t.Context(), fetched)
	if err != nil || len(run.Trials) != trials || len(notes) > 0 {
		t.Errorf("%d trials were fetched, %v, %v", len(run.Trials), notes, err)
	}
	repeated := 0
	for _, trial := range run.Trials {
		if verdict.NoteRepeated.In(trial.Validity.Warnings) {
			repeated++
		}
	}
	if evicts && repeated == 0 {
		t.Error("a generator was evicted, and no trial says that it was repeated")
	}
	if run.Header.Lab != "local" {
		t.Errorf("the run was made in a lab, and its header says %q", run.Header.Lab)
	}
	f.m.Succeeds(t, "runs", "delete", f.Run)
	nothingDetached(t, f.l)
	if left := labtest.Kubectl(t, f.l, "", "get", "namespaces", "-l", "meshtrial.dev/run", "-o", `jsonpath={.items[?(@.status.phase=="Active")].metadata.name}`); left != "" {
		t.Errorf("namespaces of attempts are left: %s", left)
	}
}

// TestDetachedVolume: a volume that is full or fails ends the run's pod. The next pod continues
// with all trials once the volume has space.
func TestDetachedVolume(t *testing.T) {
	m, l := labtest.Shared(t)
	f := &faulted{m: m, l: l}
	dir, err := l.ResultsDir()
	must.OK(t, err)
	node := func(args ...string) error { // the mounts are the node's; umount reads /proc/self
		out, err := exec.Command("nsenter", append([]string{"--target", strconv.Itoa(l.Process()), "--mount", "--pid"}, args...)...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%v: %w\n%s", args, err, out)
		}
		return err
	}
	must.OK(t, node("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d,uid=%d,gid=%[2]d,mode=700", volumeSize, lab.RolesUser), "tmpfs", dir))
	t.Cleanup(func() {
		if err := node("umount", "--lazy", dir); err != nil {
			t.Error(err)
		}
	})
	seen := filepath.Join("/proc", strconv.Itoa(l.Process()), "root", dir) // as seen from here
	file := labtest.Study(t, strings.Replace(faultsStudy, "min: 10, max: 10", "min: 3, max: 3", 1))
	f.begunRun = detach(t, f.m, "run", file, "--detach", "--json", "--wait", "20m")
	f.attach(t)
	f.meet(t, []fault{
		{"the volume is full", true, func(t *testing.T, f *faulted) {
			filler := filepath.Join(seen, "filler")
			if err := os.WriteFile(filler, make([]byte, volumeSize), 0o600); !errors.Is(err, unix.ENOSPC) {
				t.Fatalf("it holds more than it has: %v", err)
			}
			f.hears(t, "no space left for the run directory")
			must.OK(t, os.Remove(filler))
		}},
		{"the volume refuses", true, func(t *testing.T, f *faulted) {
			folder := filepath.Join(seen, f.Run, "hist")
			must.OK(t, os.Chmod(folder, 0o500))
			f.hears(t, "permission denied")
			must.OK(t, os.Chmod(folder, 0o755))
		}},
	})
	f.end(t, 9, false)
}
