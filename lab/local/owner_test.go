package local

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/observe/procfs"
	"github.com/meshtrial/meshtrial/testing/must"
)

// upFor writes the files of a lab that is up for a process (nil for one that
// stays), and returns its folder. A child of the test stands in for its init.
func upFor(t *testing.T, owner *procfs.Identity) (paths, *exec.Cmd) {
	t.Helper()
	p := paths{t.TempDir()}
	lock, err := lockFile(p.lock())
	must.OK(t, err)
	init := exec.Command("sleep", "600")
	init.ExtraFiles = []*os.File{lock} // as init has it
	must.OK(t, init.Start())
	lock.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = init.Wait()
	}()
	t.Cleanup(func() {
		_ = init.Process.Kill()
		<-ended
	})
	pid := init.Process.Pid
	must.OK(t, p.writeRecord(&record{Schema: recordSchema, ID: "0badf5", Phase: phaseReady, BootID: bootID(), InitPID: pid, InitStart: startTicks(pid),
		ImageStore: filepath.Join(t.TempDir(), "store"), ForRun: owner}))
	const config = "{apiVersion: v1, kind: Config, clusters: [{name: lab, cluster: {server: 'https://127.0.0.1:1'}}], contexts: [{name: lab, context: {cluster: lab}}], current-context: lab}"
	must.OK(t, os.WriteFile(p.kubeconfig(), []byte(config), 0o600))
	return p, init
}

// owners returns this process, a dead one, and one whose state is unknown.
func owners(t *testing.T) (me, dead, unknown procfs.Identity) {
	t.Helper()
	me, err := procfs.Self()
	must.OK(t, err)
	dead, unknown = me, me
	dead.StartTicks++ // its PID now belongs to this process
	unknown.PIDNamespace = "pid:[1]"
	return me, dead, unknown
}

func open(t *testing.T, p paths) *Lab {
	t.Helper()
	l, err := Open(p.base)
	must.OK(t, err)
	return l
}

// Only a lab whose owner is certainly dead can be adopted.
func TestAdopt(t *testing.T) {
	me, dead, unknown := owners(t)
	for _, tt := range []struct {
		name     string
		owner    *procfs.Identity
		keep     bool
		orphaned bool
		after    *procfs.Identity
	}{
		{"one that stays", nil, false, false, nil},
		{"of a run under way", &me, false, false, &me},
		{"of nobody knows whom", &unknown, false, false, &unknown},
		{"of a dead run", &dead, false, true, &me},
		{"of a dead run, to stay", &dead, true, true, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, _ := upFor(t, tt.owner)
			l := open(t, p)
			status, err := GetStatus(p.base)
			if l.Orphaned() != tt.orphaned || status.Orphaned != tt.orphaned {
				t.Errorf("orphaned: %v, status %v (%v), want %v", l.Orphaned(), status.Orphaned, err, tt.orphaned)
			}
			debts := ending.New(nil)
			mine, err := l.Adopt(debts.In(t.Context()), tt.keep)
			if err != nil || mine != tt.orphaned {
				t.Errorf("taken over: %v, %v, want %v", mine, err, tt.orphaned)
			}
			down := tt.orphaned && !tt.keep
			if l.Stays() == down || (len(debts.Open()) == 1) != down {
				t.Errorf("it stays: %v, owed: %v", l.Stays(), debts.Open())
			}
			r, err := p.readRecord()
			if err != nil || (r.ForRun == nil) != (tt.after == nil) || r.ForRun != nil && *r.ForRun != *tt.after {
				t.Errorf("noted: %+v, %v, want %+v", r.ForRun, err, tt.after)
			}
		})
	}
}

// Of many processes only one gets a lab, and takes it down.
func TestAdoptAtOnce(t *testing.T) {
	_, dead, _ := owners(t)
	p, init := upFor(t, &dead)
	var labs [8]*Lab
	for i := range labs {
		labs[i] = open(t, p)
	}
	debts := ending.New(nil)
	var all sync.WaitGroup
	var got atomic.Int32
	for _, l := range labs {
		all.Go(func() {
			mine, err := l.Adopt(debts.In(t.Context()), false)
			if err != nil {
				t.Error(err)
			}
			if mine {
				got.Add(1)
			}
		})
	}
	all.Wait()
	if got.Load() != 1 {
		t.Errorf("%d got it", got.Load())
	}
	for _, l := range labs {
		if l.Stays() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if startTicks(init.Process.Pid) == 0 {
		t.Error("who did not get the lab took it down")
	}
	for _, l := range labs {
		if !l.Stays() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if startTicks(init.Process.Pid) != 0 || len(debts.Open()) > 0 {
		t.Errorf("the lab runs on, or is still owed: %v", debts.Open())
	}
	if _, err := p.readRecord(); !errors.Is(err, errNoRecord) {
		t.Errorf("its record is left: %v", err)
	}
}

// While another process holds the record, adopting waits as long as it may.
func TestAdoptWaits(t *testing.T) {
	_, dead, _ := owners(t)
	p, _ := upFor(t, &dead)
	l := open(t, p)
	end, err := p.turn(t.Context())
	must.OK(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if mine, err := l.Adopt(ctx, false); mine || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "0badf5") {
		t.Errorf("%v, %v", mine, err)
	}
	end()
	if mine, err := l.Adopt(t.Context(), false); !mine || err != nil {
		t.Errorf("%v, %v", mine, err)
	}
}
