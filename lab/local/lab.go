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
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/observe/procfs"
)

// ErrRunning reports that a lab is already running; a state folder has one lab.
var ErrRunning = errors.New("a lab is running already")

// ErrNotRunning reports that no lab is running.
var ErrNotRunning = errors.New("no lab is running")

// Options configures [Up]. Users get the zero value.
type Options struct {
	// Supplies are what meshes contribute to the lab.
	Supplies []lab.Supply
	// Program is the meshtrial program: it becomes the lab's init through its command
	// lab-init, and goes into the roles' image. Default: the running program.
	Program string
	// OnAPI, if set, runs as soon as the API answers, in parallel with the rest of the
	// start; its error fails Up. It installs the meshes.
	OnAPI func(ctx context.Context, l *Lab) error
	// Progress receives lines of progress, from one goroutine at a time. May be nil.
	Progress func(line string)
	// BuildProgress receives the progress of components. May be nil.
	BuildProgress func(components.Event)
	// Audit has the API server write an audit log, named audit in [LogFiles].
	Audit bool
	// Nodes is the number of nodes; 0 means one.
	Nodes int
	// Zones are the nodes' zones, each ZONE or REGION/ZONE, assigned to nodes in turn.
	// Default: a separate zone for each of several nodes, none for a single node.
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

// Kind returns lab.KindLocal.
func (l *Lab) Kind() string { return lab.KindLocal }

// RESTConfig returns a client configuration for the lab's administrator.
func (l *Lab) RESTConfig() *rest.Config {
	out := rest.CopyConfig(l.config)
	out.WarningHandler = rest.NoWarnings{} // about deprecated fields of Istio's charts, which cannot be changed here
	return out
}

// Kubeconfig returns the path of the administrator's kubeconfig.
func (l *Lab) Kubeconfig() string { return l.paths.kubeconfig() }

// ID returns the lab's ID, which is part of the names of its folder and interface.
func (l *Lab) ID() string { return l.record.ID }

// ResultsDir makes and returns a folder of the lab that pods of the roles may write
// to. It is removed with the lab.
func (l *Lab) ResultsDir() (string, error) {
	dir := l.paths.dir(l.record.ID).join("results")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return dir, os.Chown(dir, lab.RolesUser, lab.RolesUser)
}

// Process returns the PID, on this machine, of the ancestor of all processes of the
// lab.
func (l *Lab) Process() int { return l.record.InitPID }

// Size returns the number of nodes, including those that have ended.
func (l *Lab) Size() int { return len(l.record.Nodes) }

// Images returns the images in the lab's image store.
func (l *Lab) Images() lab.Images { return l.record.Images }

// UpTime returns how long [Up] took.
func (l *Lab) UpTime() time.Duration { return time.Duration(l.record.UpSeconds * float64(time.Second)) }

// Nodes returns the lab's real nodes, without those that kwok simulates.
func (l *Lab) Nodes() []Node { return l.record.Nodes }

// Builder returns the builder of the lab's components, or nil if the lab was opened.
func (l *Lab) Builder() *components.Builder { return l.builder }

// Stays reports whether the lab keeps running after Close: it does unless it was
// started with DownOnClose or adopted.
func (l *Lab) Stays() bool { return !l.down }

// Close takes the lab down if it was started with DownOnClose or adopted.
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

// owe records that this process must take the lab down.
func owe(ctx context.Context) (paid func()) {
	return ending.Owe(ctx, "the local lab", "meshtrial lab down")
}

// Open returns the lab running from a state folder ("" means the default), or
// ErrNotRunning.
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
		return nil, errs.WithHint(fmt.Errorf("%w: lab %s has died", ErrNotRunning, r.ID), "meshtrial lab down removes what is left of it; meshtrial lab up also starts a new one")
	case r.Phase != phaseReady:
		return nil, errs.WithHint(fmt.Errorf("%w: lab %s is still being started", ErrNotRunning, r.ID), "wait for `meshtrial lab up` to end")
	}
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig())
	if err != nil {
		return nil, err
	}
	kubernetes.Prepare(config)
	return &Lab{record: r, paths: p, config: config}, nil
}

// StartedByOther reports whether a program other than the one at path started the lab:
// its roles run that program, and may use another version of the protocol.
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

// Digest returns "sha256:" and the checksum of a file.
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

// Owner returns the process that the lab was started for and that takes it down at its
// end, or nil for a lab that stays.
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

// Adopt makes this process the owner of an orphaned lab: Close takes it down, or it
// stays if keep is set. Only one of several processes gets the lab, and none does
// while its owner lives.
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
	r, err := l.paths.readRecord() // read again now that no other process changes it
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
