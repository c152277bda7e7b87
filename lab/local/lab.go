package local

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/observe/procfs"
)

// ErrRunning reports that a lab runs already; one state folder has one lab.
var ErrRunning = errors.New("a lab is running already")

// ErrNotRunning reports that no lab runs.
var ErrNotRunning = errors.New("no lab is running")

// Options of [Up]. The zero value is what users get.
type Options struct {
	// Supplies are what meshes give the lab.
	Supplies []lab.Supply
	// Program is the meshtrial program: it becomes the lab's init by its
	// command lab-init, and the roles' image is made from it. Default: the
	// program that runs.
	Program string
	// OnAPI, if set, runs as soon as the API answers, beside the rest of the
	// start; its error fails Up. A mesh is installed here.
	OnAPI func(ctx context.Context, l *Lab) error
	// Progress receives lines of progress, from one goroutine at a time. May be nil.
	Progress func(line string)
	// BuildProgress receives the progress of components. May be nil.
	BuildProgress func(components.Event)
	// Audit has the API server write an audit log, which [LogFiles] calls audit.
	Audit bool
	// Nodes is how many nodes the lab has; 0 is one.
	Nodes int
	// Zones are those of the nodes, ZONE or REGION/ZONE each, dealt to them in
	// turn. Default: a zone for each of several nodes, none for a single one.
	Zones []string
	// DownOnClose ends the lab when the returned Lab is closed.
	DownOnClose bool
}

// Lab is a running local lab.
type Lab struct {
	record  *record
	paths   paths
	config  *rest.Config
	builder *components.Builder
	down    bool
	paid    func() // called once the lab that this process must take down is down
}

var _ lab.Lab = (*Lab)(nil)

// Kind is lab.KindLocal.
func (l *Lab) Kind() string { return lab.KindLocal }

// RESTConfig returns a client configuration of the lab's administrator.
func (l *Lab) RESTConfig() *rest.Config {
	out := rest.CopyConfig(l.config)
	out.WarningHandler = rest.NoWarnings{} // of deprecated fields of Istio's charts, which nobody here can change
	return out
}

// Kubeconfig is the path of the administrator's kubeconfig.
func (l *Lab) Kubeconfig() string { return l.paths.kubeconfig() }

// ID is the lab's own, which its folder and interface bear.
func (l *Lab) ID() string { return l.record.ID }

// ResultsDir makes, and returns, a folder of the lab's own that pods of the roles may
// write to. It goes with the lab.
func (l *Lab) ResultsDir() (string, error) {
	dir := l.paths.dir(l.record.ID).join("results")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return dir, os.Chown(dir, lab.RolesUser, lab.RolesUser)
}

// Process is the id of the process on this machine from which all of the lab's
// descend.
func (l *Lab) Process() int { return l.record.InitPID }

// Size is how many nodes the lab has, those that ended among them.
func (l *Lab) Size() int { return len(l.record.Nodes) }

// Images are those in the lab's image store.
func (l *Lab) Images() lab.Images { return l.record.Images }

// UpTime is how long [Up] took.
func (l *Lab) UpTime() time.Duration { return time.Duration(l.record.UpSeconds * float64(time.Second)) }

// Nodes are the lab's real nodes, those that kwok plays left out.
func (l *Lab) Nodes() []Node { return l.record.Nodes }

// Builder is the builder of the lab's components; nil for a lab that was
// opened.
func (l *Lab) Builder() *components.Builder { return l.builder }

// Stays says whether the lab runs on after Close: unless it was started with
// DownOnClose, or adopted.
func (l *Lab) Stays() bool { return !l.down }

// Close takes the lab down if it was started with DownOnClose, or adopted.
func (l *Lab) Close() error {
	if !l.down {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*sweepLimit)
	defer cancel()
	_, err := Down(ctx, l.paths.base)
	l.paid()
	return err
}

// owe notes that this process must take the lab down.
func owe(ctx context.Context) (paid func()) {
	return ending.Owe(ctx, "the local lab", "meshtrial lab down")
}

// Open returns the lab that runs from a state folder ("" is the default
// one), or ErrNotRunning.
func Open(dir string) (*Lab, error) {
	p, err := stateDir(dir)
	if err != nil {
		return nil, err
	}
	r, err := p.readRecord()
	if errors.Is(err, errNoRecord) {
		return nil, errs.WithHint(ErrNotRunning, "meshtrial lab up starts one")
	}
	if err != nil {
		return nil, err
	}
	switch {
	case !r.initAlive():
		return nil, errs.WithHint(fmt.Errorf("%w: what is left of lab %s is dead", ErrNotRunning, r.ID), "meshtrial lab down removes what is left of it, meshtrial lab up does so too and starts a new one")
	case r.Phase != phaseReady:
		return nil, errs.WithHint(fmt.Errorf("%w: lab %s is still being started", ErrNotRunning, r.ID), "wait for `meshtrial lab up` to end")
	}
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig())
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = -1, -1 // the server decides how fast
	return &Lab{record: r, paths: p, config: config}, nil
}

// StartedByOther reports whether another program than the one at path started the lab:
// its roles are that program, and may speak another version of the protocol.
func (l *Lab) StartedByOther(path string) (bool, error) {
	running := fmt.Sprintf("/proc/%d/exe", l.record.InitPID)
	a, err := os.Stat(running)
	if err != nil {
		return false, err
	}
	b, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	if os.SameFile(a, b) {
		return false, nil
	}
	started, err := Digest(running)
	if err != nil {
		return false, err
	}
	now, err := Digest(path)
	return started != now, err
}

// Digest is "sha256:" and the sum of a file.
func Digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("sha256:%x", sum.Sum(nil)), nil
}

// Owner is the process that a lab was started for and that takes it down at its end;
// nil for a lab that stays.
func (l *Lab) Owner() *procfs.Identity { return l.record.ForRun }

// Orphaned reports whether the lab's owner has ended without taking it down, as a
// killed run does.
func (l *Lab) Orphaned() bool {
	orphaned, err := l.record.orphaned()
	return err == nil && orphaned
}

func (r *record) orphaned() (bool, error) {
	if r.ForRun == nil {
		return false, nil
	}
	me, err := procfs.Self()
	return err == nil && procfs.LifeOf(*r.ForRun, me) == procfs.Dead, err
}

// Adopt makes this process the owner of an orphaned lab: Close takes it down, or with
// keep it stays. Of several processes only one gets the lab, and none while its owner
// lives.
func (l *Lab) Adopt(ctx context.Context, keep bool) (mine bool, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("take over lab %s: %w", l.record.ID, err)
		}
	}()
	end, err := l.paths.turn(ctx)
	if err != nil {
		return false, err
	}
	defer end()
	r, err := l.paths.readRecord() // as it is now that nobody else changes it
	if err != nil {
		return false, err
	}
	orphaned, err := r.orphaned()
	if err != nil || !orphaned || r.ID != l.record.ID {
		return false, err
	}
	r.ForRun = nil
	paid := func() {}
	if !keep {
		me, err := procfs.Self()
		if err != nil {
			return false, err
		}
		r.ForRun, paid = &me, owe(ctx)
	}
	if err := l.paths.writeRecord(r); err != nil {
		paid()
		return false, err
	}
	l.record, l.down, l.paid = r, !keep, paid
	return true, nil
}

// turn locks the record of a running lab until end is called. It locks the folder
// itself, since init holds the lock file while the lab is up.
func (p paths) turn(ctx context.Context) (end func(), err error) {
	folder, err := os.Open(p.base)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = wake.Pause(ctx, 10*time.Millisecond)
			if err == nil {
				continue
			}
		}
		if err != nil {
			folder.Close()
			return nil, err
		}
		return func() { folder.Close() }, nil
	}
}
