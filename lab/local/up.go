package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/lab/doctor"
	"github.com/meshtrial/meshtrial/observe/procfs"
)

// Up starts a lab and returns when its API, its DNS and the work of OnAPI are ready. If
// it fails, only the components' logs remain; if ctx ends, nothing remains. Before
// anything is built or started, one error lists everything that the machine lacks.
func Up(ctx context.Context, o Options) (*Lab, error) {
	o.Nodes = max(o.Nodes, 1)
	places, err := placesOf(o.Nodes, o.Zones)
	if err != nil {
		return nil, err
	}
	u, err := newStarter(o)
	if err != nil {
		return nil, err
	}
	u.places = places
	if os.Geteuid() != 0 {
		return nil, refuse(Requirements(ctx, o))
	}
	lock, err := lockFile(u.paths.lock())
	if errors.Is(err, errLocked) {
		return nil, u.alreadyRunning()
	}
	if err != nil {
		if lines := Requirements(ctx, o); doctor.Worst(lines) == doctor.Failure { // a full disk, or one that is only read
			return nil, refuse(lines)
		}
		return nil, err
	}
	defer lock.Close() // init keeps a copy
	if lines := Requirements(ctx, o); doctor.Worst(lines) == doctor.Failure {
		return nil, refuse(lines)
	}
	if err := sweep(ctx, u.paths); err != nil {
		return nil, fmt.Errorf("remove what an earlier lab left: %w", err)
	}
	if err := u.gather(ctx); err != nil {
		return nil, err
	}
	paid := owe(ctx)
	l, err := u.start(ctx, lock)
	if err == nil && o.DownOnClose {
		l.paid = paid
		return l, nil
	}
	defer paid()
	if err != nil {
		if ctx.Err() == nil {
			u.keepLogs()
		}
		limited, cancel := ending.Within(ctx, sweepLimit)
		defer cancel()
		if swept := sweep(limited, u.paths); swept != nil {
			err = errors.Join(err, swept)
		}
		return nil, err
	}
	return l, nil
}

// starter is one running Up.
type starter struct {
	o       Options
	paths   paths
	cache   string
	builder *components.Builder
	set     *components.Set
	images  []components.Image
	meshes  map[string]map[string]string // facts about their images
	places  []place                      // of the nodes
	began   time.Time
	record  *record
}

func newStarter(o Options) (*starter, error) {
	p, err := stateDir("")
	if err != nil {
		return nil, err
	}
	cache, err := components.CacheDir("")
	if err != nil {
		return nil, err
	}
	if o.Program == "" {
		if o.Program, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	builder, err := components.New(components.Options{CacheDir: cache, Progress: o.BuildProgress})
	if err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return &starter{o: o, paths: p, cache: cache, builder: builder}, nil
}

func (u *starter) alreadyRunning() error {
	r, err := u.paths.readRecord()
	if err != nil || r.Phase == phaseStarting {
		return errs.WithHint(errs.Usage("another meshtrial command is starting or stopping this lab"),
			"wait until it is done: meshtrial lab status\nor stop the lab: meshtrial lab down")
	}
	err = fmt.Errorf("%w: lab %s, %s since %s", ErrRunning, r.ID, r.Phase, r.Started.Local().Format(time.DateTime))
	return errs.WithHint(errs.WithCode(err, errs.CodeUsage), "use it: eval \"$(meshtrial lab env)\"\nor stop it: meshtrial lab down")
}

// refuse returns an error with all failed requirements.
func refuse(lines []doctor.Line) error {
	var what, mend []string
	for _, line := range lines {
		if line.Status == doctor.Failure {
			what = append(what, line.Name+": "+line.Detail)
			if line.Mend != "" && !slices.Contains(mend, line.Mend) {
				mend = append(mend, line.Mend)
			}
		}
	}
	err := errs.Usage("this machine cannot run a local lab:\n  %s", strings.Join(what, "\n  "))
	if len(mend) == 0 {
		return err
	}
	return errs.WithHint(err, "%s", strings.Join(mend, "\n"))
}

// gather makes the lab's components and images.
func (u *starter) gather(ctx context.Context) error {
	var err error
	if u.set, err = u.builder.Ensure(ctx, append([]string{"cni"}, programNames...)...); err != nil {
		return err
	}
	u.meshes = map[string]map[string]string{}
	var own, meshes []components.Image
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		own, err = u.builder.Images(ctx, u.o.Program)
		return err
	})
	group.Go(func() error { // meshes in turn, whose components may have to be compiled
		for _, s := range u.o.Supplies {
			if s.Images == nil {
				continue
			}
			images, facts, err := s.Images(ctx, u.builder)
			if err != nil {
				return err
			}
			meshes, u.meshes[s.Mesh] = append(meshes, images...), facts
		}
		return nil
	})
	err = group.Wait()
	u.images = append(own, meshes...)
	return err
}

// start makes the lab. On an error the caller sweeps.
func (u *starter) start(ctx context.Context, lock *os.File) (*Lab, error) {
	u.began = time.Now()
	groups, err := machineCgroups()
	if err != nil {
		return nil, err
	}
	// Until the link has the addresses, another lab would choose the same.
	endTurn, err := takeTurn(ctx, turnSocket)
	if err != nil {
		return nil, err
	}
	defer endTurn()
	taken, err := takenRanges()
	if err != nil {
		return nil, err
	}
	addresses, err := chooseNetwork(taken, len(u.places))
	if err != nil {
		return nil, err
	}
	store, storeLock, err := lockImageStore(u.cache)
	if err != nil {
		return nil, err
	}
	defer storeLock.Close() // init keeps a copy
	var owner *procfs.Identity
	if u.o.DownOnClose {
		me, err := procfs.Self()
		if err != nil {
			return nil, err
		}
		owner = &me
	}
	id := newID()
	u.record = &record{
		Schema: recordSchema, ID: id, Phase: phaseStarting, BootID: bootID(), Started: u.began.UTC(),
		HostInterface: hostInterface(id), Network: addresses, Cgroup: "/meshtrial-" + id, ImageStore: store.dir,
		Images: lab.Images{Meshtrial: components.RolesRef, PullPolicy: corev1.PullIfNotPresent, Meshes: u.meshes},
		ForRun: owner, Nodes: addresses.nodesAt(u.places),
	}
	if err := u.note(); err != nil {
		return nil, err
	}
	s, err := u.spec()
	if err != nil {
		return nil, err
	}
	config, err := u.writeFiles(s)
	if err != nil {
		return nil, err
	}
	if err := groups.create(u.record.Cgroup, labShare); err != nil {
		return nil, err
	}
	l := &Lab{record: u.record, paths: u.paths, config: config, builder: u.builder, down: u.o.DownOnClose}
	in, err := u.startInit(s, groups, lock, storeLock)
	if err != nil {
		return nil, err
	}
	defer in.control.Close()
	endTurn()
	if err := u.await(ctx, l, in); err != nil {
		in.kill()
		return nil, err
	}
	u.record.Phase, u.record.UpSeconds = phaseReady, time.Since(u.began).Seconds()
	if err := u.paths.writeRecord(u.record); err != nil {
		in.kill()
		return nil, err
	}
	os.RemoveAll(u.failedLogs()) // of an earlier start
	if err := sendEvent(in.control, event{Event: eventStay}); err != nil {
		in.kill()
		return nil, fmt.Errorf("the lab's init is gone: %w", err)
	}
	return l, nil
}

func (u *starter) say(format string, args ...any) {
	u.o.Progress(fmt.Sprintf("%s (%.1f s)", fmt.Sprintf(format, args...), time.Since(u.began).Seconds()))
}

// installBasics makes the lab a usable cluster: the node's own rights and DNS.
func (u *starter) installBasics(ctx context.Context, l *Lab) error {
	applier, err := lab.NewApplier(l.config)
	if err != nil {
		return err
	}
	if err := applier.Apply(ctx, append(nodeRoles(), nodeObjects(l.record.Nodes)...)); err != nil {
		return err
	}
	if err := applier.Apply(ctx, coreDNS(components.CoreDNSRef, l.record.Network.dns().String(), len(l.record.Nodes))); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(l.config)
	if err != nil {
		return err
	}
	if err := lab.WaitDeployment(ctx, client, "kube-system", "coredns"); err != nil {
		return err
	}
	u.say("cluster DNS available")
	if len(l.record.Nodes) < 2 {
		return nil // DNS runs on it
	}
	var names []string
	for _, n := range l.record.Nodes {
		names = append(names, n.Name)
	}
	if err := l.awaitNodes(ctx, time.Time{}, names...); err != nil {
		return err
	}
	u.say("%d nodes ready", len(names))
	return nil
}

// note writes the lab's record, and raises limits of the machine that are too low.
func (u *starter) note() (err error) {
	host := sysctls{"/proc/sys"}
	if u.record.Sysctls, err = host.toRaise(inotifyInstances, needInotify); err != nil {
		return err
	}
	if err := u.paths.writeRecord(u.record); err != nil {
		return err
	}
	for name := range u.record.Sysctls {
		if err := host.set(map[string]int{name: needInotify}); err != nil {
			u.say("%v: room for about forty sidecars", err)
		}
	}
	return nil
}

// spec returns the spec from which init makes the lab.
func (u *starter) spec() (*spec, error) {
	s := &spec{
		ID: u.record.ID, Dir: u.paths.dir(u.record.ID), ImageStore: u.record.ImageStore, Network: u.record.Network, Cgroup: u.record.Cgroup,
		Programs: map[string]components.Program{}, CNI: u.set.Dir("cni"), Images: u.images, Pause: components.PauseRef, Audit: u.o.Audit,
		NodeNetwork: u.o.nodeNetwork(), Nodes: u.record.Nodes,
	}
	if !s.several() {
		s.Self = s.Nodes[0]
	}
	for _, name := range programNames {
		program, ok := u.set.Program(name)
		if !ok {
			return nil, fmt.Errorf("no component has program %s", name)
		}
		s.Programs[name] = program
	}
	s.Keep = s.keep()
	return s, nil
}

// writeFiles writes init's files and the administrator's kubeconfig, and returns the
// latter as a client configuration.
func (u *starter) writeFiles(s *spec) (*rest.Config, error) {
	keys, ofNodes, err := pkiFiles(s.Network, s.Nodes, u.began)
	if err != nil {
		return nil, err
	}
	if err := s.writeFiles(keys); err != nil {
		return nil, fmt.Errorf("write the lab's files: %w", err)
	}
	for _, n := range s.Nodes {
		if !s.several() {
			break // it is the lab's own
		}
		if err := s.of(n).writeFiles(ofNodes[n.Name]); err != nil {
			return nil, fmt.Errorf("write the files of node %s: %w", n.Name, err)
		}
	}
	admin := keys.kubeconfigs["admin"]
	if err := writeFile(u.paths.kubeconfig(), admin); err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(admin)
	if err != nil {
		return nil, err
	}
	kubernetes.Prepare(config)
	return config, nil
}

// initProcess is the lab's init, as seen by Up.
type initProcess struct {
	process *os.Process
	control *os.File
	gone    chan struct{} // closed when it has ended
}

// kill ends init, and with it everything in the lab.
func (p *initProcess) kill() {
	p.process.Kill()
	<-p.gone
}

// startInit starts init in its namespaces and gives it its cgroup and link.
func (u *starter) startInit(s *spec, groups cgroups, lock, storeLock *os.File) (*initProcess, error) {
	ours, theirs, err := controlPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	log, err := os.OpenFile(s.Dir.log("init"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		ours.Close()
		return nil, err
	}
	defer log.Close()
	hostNet, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		ours.Close()
		return nil, err
	}
	defer hostNet.Close()
	cmd := exec.Command(u.o.Program, "lab-init", s.Dir.spec())
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + os.Getenv("PATH"), "HOME=/"}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{theirs, lock, storeLock, hostNet} // fdControl, fdLabLock, fdStoreLock, fdHostNet
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
	}
	keepInherited()
	if err := cmd.Start(); err != nil {
		ours.Close()
		return nil, fmt.Errorf("start the lab's init: %w", err)
	}
	in := &initProcess{process: cmd.Process, control: ours, gone: make(chan struct{})}
	go func() { cmd.Wait(); close(in.gone) }() // ends with init, or with this program
	pid := cmd.Process.Pid
	err = func() error {
		u.record.InitPID, u.record.InitStart = pid, startTicks(pid)
		if err := u.paths.writeRecord(u.record); err != nil {
			return err
		}
		if err := groups.join(u.record.Cgroup, pid); err != nil {
			return err
		}
		if err := linkHost(u.record, pid); err != nil {
			return err
		}
		return sendEvent(in.control, event{Event: eventGo})
	}()
	if err != nil {
		in.kill()
		ours.Close()
		return nil, err
	}
	return in, nil
}

// keepInherited keeps the files that this process inherited, such as a caller's lock, from programs
// that it starts: a lab outlives its caller.
func keepInherited() {
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) // before Linux 5.11 it inherits them
}

// await follows init until everything is up. Once the API answers, it installs DNS and
// runs OnAPI while the node is still starting.
func (u *starter) await(ctx context.Context, l *Lab, in *initProcess) error {
	group, ctx := errgroup.WithContext(ctx)
	stop := context.AfterFunc(ctx, func() { in.control.SetReadDeadline(time.Now()) }) // ends follow
	defer stop()
	api := make(chan struct{})
	group.Go(func() error { return u.follow(ctx, in.control, api) })
	group.Go(func() error {
		select {
		case <-api:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		limited, cancel := context.WithTimeoutCause(ctx, 6*time.Minute, errors.New("not ready within six minutes"))
		defer cancel()
		installs, limited := errgroup.WithContext(limited)
		installs.Go(func() error { return u.installBasics(limited, l) })
		if u.o.OnAPI != nil {
			installs.Go(func() error { return u.o.OnAPI(limited, l) })
		}
		return installs.Wait()
	})
	return group.Wait()
}

// follow reads init's events until everything has started or ctx ends.
func (u *starter) follow(ctx context.Context, control *os.File, api chan struct{}) error {
	lines := bufio.NewReader(control)
	for {
		e, err := readEvent(lines)
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return errs.WithHint(fmt.Errorf("the lab's init ended before the lab was up (%w)", err), "see %s", u.failedLogs())
		}
		switch e.Event {
		case eventSay:
			u.say("%s", e.Text)
		case eventAPI:
			close(api)
		case eventFailed:
			return errs.WithHint(fmt.Errorf("the lab did not start: %s", e.Text), "logs are in %s", u.failedLogs())
		case eventUp:
			u.say("node components started")
			return nil
		}
	}
}

// failedLogs returns the folder that keeps the logs of a failed start.
func (u *starter) failedLogs() string { return filepath.Join(u.paths.base, "failed") }

// keepLogs saves the components' logs before the lab's folder is removed.
func (u *starter) keepLogs() {
	if u.record == nil {
		return
	}
	dir := u.paths.dir(u.record.ID)
	os.RemoveAll(dir.join("log", "pods"))
	os.RemoveAll(u.failedLogs())
	os.Rename(dir.logs(), u.failedLogs())
	if len(u.record.Nodes) < 2 {
		return
	}
	os.Mkdir(filepath.Join(u.failedLogs(), "nodes"), 0o700)
	for _, n := range u.record.Nodes {
		logs := dir.nodeDir(n.Name).logs()
		os.RemoveAll(filepath.Join(logs, "pods"))
		os.Rename(logs, filepath.Join(u.failedLogs(), "nodes", n.Name))
	}
}
