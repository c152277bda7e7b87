package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshtrial/meshtrial/internal/ending"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/lab/doctor"
	"github.com/meshtrial/meshtrial/observe/procfs"
)

// Up starts a lab and returns when its API, its DNS and what OnAPI does are
// ready. When it fails, only the logs of the components are left; when ctx ends, nothing.
// Before anything is built or started, one error names all that the machine lacks.
func Up(ctx context.Context, o Options) (*Lab, error) {
	o.Nodes = max(o.Nodes, 1)
	places, err := placesOf(o.Nodes, o.Zones)
	if err != nil {
		return nil, err
	}
	if o.Ambient && !o.Official {
		if _, err := components.ZtunnelImage(ctx, o.Ztunnel); err != nil {
			return nil, err
		}
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

// starter is one Up at work.
type starter struct {
	o       Options
	paths   paths
	cache   string
	builder *components.Builder
	set     *components.Set
	images  []components.Image
	linkerd *components.Linkerd // nil: not asked for
	places  []place             // of the nodes
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
		return errs.WithHint(errs.Usage("another meshtrial command is starting or ending this lab"),
			"wait until it is done: meshtrial lab status\nor end the lab: meshtrial lab down")
	}
	err = fmt.Errorf("%w: lab %s, %s since %s", ErrRunning, r.ID, r.Phase, r.Started.Local().Format(time.DateTime))
	return errs.WithHint(errs.WithCode(err, errs.CodeUsage), "use it: eval \"$(meshtrial lab env)\"\nor end it: meshtrial lab down")
}

// refuse is the error of all failed requirements.
func refuse(lines []doctor.Line) error {
	var what, mend []string
	for _, line := range lines {
		if line.Status == doctor.Failure {
			what = append(what, line.Name+": "+line.Detail)
			if line.Mend != "" {
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
	if u.set, err = u.builder.Ensure(ctx, append([]string{"cni"}, programsOf(u.o.MetricsServer)...)...); err != nil {
		return err
	}
	envoys := append([]string{components.DefaultEnvoy}, u.o.EnvoyVersions...)
	slices.Sort(envoys)
	u.images, err = u.builder.Images(ctx, components.ImageOptions{
		MeshtrialBinary: u.o.Program, EnvoyVersions: slices.Compact(envoys), Official: u.o.Official, Hub: u.o.Hub, Tag: u.o.Tag,
		Ambient: u.o.Ambient, Ztunnel: u.o.Ztunnel})
	if err != nil || u.o.Linkerd == nil {
		return err
	}
	if u.linkerd, err = u.builder.Linkerd(ctx, *u.o.Linkerd); err != nil {
		return err
	}
	u.images = append(u.images, u.linkerd.Images...)
	return nil
}

// imagesOf names the images for pods.
func (u *starter) imagesOf() lab.Images {
	images := lab.Images{Meshtrial: components.RolesRef, Proxies: map[string]string{}, PullPolicy: corev1.PullIfNotPresent}
	for _, image := range u.images {
		name, tag, _ := strings.Cut(image.Ref, "/pilot:")
		if tag != "" {
			images.Istiod, images.Hub, images.IstioTag = image.Ref, name, tag
		}
		if strings.Contains(image.Ref, "/ztunnel:") {
			images.Ztunnel = image.Ref
		}
	}
	images.Proxy = images.Hub + "/proxyv2:" + images.IstioTag
	if u.linkerd != nil {
		images.LinkerdController, images.LinkerdProxy, images.LinkerdVersion = u.linkerd.Controller, u.linkerd.Proxy, u.linkerd.Version
	}
	if u.o.Official {
		return images // with the Envoy that Istio ships
	}
	images.Proxies[components.DefaultEnvoy] = components.ProxyRef("")
	for _, version := range u.o.EnvoyVersions {
		images.Proxies[version] = components.ProxyRef(version)
	}
	return images
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
		HostInterface: hostInterface(id), Network: addresses, Cgroup: "/meshtrial-" + id, ImageStore: store.dir, Images: u.imagesOf(),
		ForRun: owner, MetricsServer: u.o.MetricsServer, Nodes: addresses.nodesAt(u.places),
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
	l := &Lab{record: u.record, paths: u.paths, config: config, builder: u.builder, linkerd: u.linkerd, down: u.o.DownOnClose}
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
	if err := in.send(eventStay); err != nil {
		in.kill()
		return nil, fmt.Errorf("the lab's init is gone: %w", err)
	}
	return l, nil
}

func (u *starter) say(format string, args ...any) {
	u.o.Progress(fmt.Sprintf("%s (%.1f s)", fmt.Sprintf(format, args...), time.Since(u.began).Seconds()))
}

// installBasics makes the lab a usable cluster: the node's own rights, DNS, and
// what `kubectl top` asks if that is wanted.
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
	if u.o.MetricsServer {
		if err := u.installMetrics(ctx, applier, l.config); err != nil {
			return err
		}
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
