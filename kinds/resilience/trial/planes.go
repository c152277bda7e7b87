package trial

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/drive/fault"
	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner"
	"github.com/meshtrial/meshtrial/run/site"
)

// beside is a second control plane from when it serves: its record, and the use of both control
// planes at that time.
type beside struct {
	record.ScenarioPlanes
	since time.Time
	pods  []site.Pod                // of the second
	first map[string]observe.Sample // by pod UID
	ended bool
}

// beginPlanes records a second control plane that serves, and compares what both send if they are
// of different versions.
func (t *scenarioTrial) beginPlanes(ctx context.Context, step, name string) {
	first, _ := t.revisions.plane(fault.Installed)
	second, _ := t.revisions.plane(name)
	b := &beside{ScenarioPlanes: record.ScenarioPlanes{Step: step,
		First:  record.ScenarioPlane{Revision: first.Revision, Version: first.Version},
		Second: record.ScenarioPlane{Revision: second.Revision, Version: second.Version}}}
	if first.Version != second.Version && first.Discovery != 0 {
		compared, err := t.comparePlanes(ctx, first, second)
		if err != nil {
			t.unmeasured("the configurations of revisions %s and %s were not compared: %v", first.Revision, second.Revision, err)
		}
		b.Compared = compared
	}
	var err error
	if b.first, err = t.planeUse(ctx, false); err != nil {
		t.unmeasured("the use of two control planes was not counted: %v", err)
	}
	b.since = time.Now()
	t.revisions.mu.Lock()
	defer t.revisions.mu.Unlock()
	for _, pod := range t.revisions.second[second.Revision] {
		if b.first[pod.UID].Error == "" { // else of an earlier step's control plane of that name
			b.pods = append(b.pods, pod)
		}
	}
	t.revisions.beside = append(t.revisions.beside, b)
}

// endPlanes completes the record of second control planes: of one that is removed now, or of all
// at the end of the timeline for "".
func (t *scenarioTrial) endPlanes(ctx context.Context, removed string) {
	if t.revisions == nil {
		return
	}
	t.revisions.mu.Lock()
	open := slices.DeleteFunc(slices.Clone(t.revisions.beside), func(b *beside) bool {
		return b.ended || removed != "" && b.Second.Revision != removed
	})
	t.revisions.mu.Unlock()
	if len(open) == 0 {
		return
	}
	now, err := t.planeUse(ctx, true)
	at := time.Now()
	if err != nil {
		t.unmeasured("the use of two control planes was not counted: %v", err)
	}
	r := t.revisions
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range open {
		b.ended, b.Removed = true, removed != ""
		if err != nil || b.first == nil || t.ControlUnseen() != "" || len(r.unseen) > 0 { // which is recorded elsewhere
			continue
		}
		first, second := b.First, b.Second
		if err := errors.Join(addUse(&first, t.Control, b.first, now), addUse(&second, b.pods, b.first, now)); err != nil {
			t.unmeasured("the use of revisions %s and %s side by side was not counted: %v", first.Revision, second.Revision, err)
			continue
		}
		b.Seconds, b.First, b.Second = at.Sub(b.since).Seconds(), first, second
		if b.Removed && b.Second.MemoryBytes > 0 { // the last sample cannot read it
			t.looks.hold(partSecond, b.Second.MemoryBytes)
		}
	}
}

// planeUse reads the counters of all control planes' pods.
func (t *scenarioTrial) planeUse(ctx context.Context, memory bool) (map[string]observe.Sample, error) {
	targets := map[string][]observe.Target{}
	for _, pod := range slices.Concat(t.Control, t.revisions.others()) {
		targets[pod.Node] = append(targets[pod.Node], observe.Target{Name: pod.UID, PodUID: pod.UID, MayEnd: true})
	}
	shots, err := t.Snapshot(ctx, targets, observe.SnapshotsRequest{Memory: memory, Edge: observe.End})
	if err != nil {
		return nil, err
	}
	out := map[string]observe.Sample{}
	for _, shot := range shots {
		maps.Copy(out, shot.Targets)
	}
	return out, nil
}

// addUse adds the use of a control plane's pods between two readings; memory only if it was read of
// all of them. It returns an error if a pod came or ended meanwhile.
func addUse(to *record.ScenarioPlane, pods []site.Pod, first, last map[string]observe.Sample) error {
	if len(pods) == 0 {
		return fmt.Errorf("revision %s has no pod that was read", to.Revision)
	}
	memory, whole := int64(0), true
	for _, pod := range pods {
		used, err := last[pod.UID].Since(first[pod.UID])
		if err != nil {
			return fmt.Errorf("pod %s: %w", pod.Name, err)
		}
		to.CPU = to.CPU.Plus(used)
		if m := last[pod.UID].Memory; m != nil && m.PSSBytes > 0 {
			memory += m.PSSBytes
		} else {
			whole = false
		}
	}
	if whole {
		to.MemoryBytes = memory
	}
	return nil
}

const (
	// maxCompared limits the proxies whose configurations are compared: pods of a service have
	// nearly the same.
	maxCompared = 8
	// compareTime limits the comparison, within the time for the proof of a step.
	compareTime = 20 * time.Second
)

// comparePlanes requests, as a proxy of each service and of a client, or as a ztunnel, the
// configuration from both control planes, and compares it resource by resource.
func (t *scenarioTrial) comparePlanes(ctx context.Context, first, second mesh.Plane) (*record.PlaneConfigs, error) {
	ctx, cancel := context.WithTimeout(ctx, compareTime)
	defer cancel()
	var pods []*corev1.Pod
	for _, w := range t.scene.workloads() {
		living := t.census.living(w.Name)
		if w.Proxy == nil || len(living) == 0 || len(pods) == maxCompared {
			continue
		}
		pod, err := t.Kube.CoreV1().Pods(t.Namespace).Get(ctx, living[0].Name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", living[0].Name, err)
		}
		pods = append(pods, pod)
	}
	if t.scene.ambient() { // all ztunnels get the same
		carriers, err := t.livingShared(ctx)
		if err != nil {
			return nil, err
		}
		pods = append(pods, &carriers[0])
	}
	planes, all := [2]mesh.Plane{first, second}, make([][2][]byte, len(pods))
	group, limited := errgroup.WithContext(ctx)
	for i, pod := range pods {
		for side, plane := range planes {
			group.Go(func() (err error) {
				all[i][side], err = t.transcript(limited, plane, pod)
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	out := &record.PlaneConfigs{}
	var parts []scope.Compared
	var files []runner.Artefact
	for i, pod := range pods {
		one, err := scope.Compare(bytes.NewReader(all[i][0]), bytes.NewReader(all[i][1]))
		if err != nil {
			return nil, fmt.Errorf("configuration of %s: %w", pod.Name, err)
		}
		out.Proxies = append(out.Proxies, pod.Name)
		parts = append(parts, one)
		for side, plane := range planes {
			file, err := runner.Gzipped(recordingName(pod.Name, plane.Revision), all[i][side])
			if err != nil {
				return nil, err
			}
			files = append(files, file)
		}
	}
	sumCompared(out, parts)
	t.revisions.mu.Lock()
	defer t.revisions.mu.Unlock()
	for _, file := range files {
		file.Name = fmt.Sprintf("%d-%s", len(t.files), file.Name) // a later step may compare the same pod
		t.files = append(t.files, file)
	}
	return out, nil
}

// recordingName names the file of what a revision sends a pod. Parts are cut to what a run directory
// accepts; a number before it makes it unique.
func recordingName(pod, revision string) string {
	return fmt.Sprintf("%.24s-%.24s.xds.gz", pod, revision)
}

// sumCompared adds the comparisons of single proxies.
func sumCompared(out *record.PlaneConfigs, parts []scope.Compared) {
	index := map[scope.DifferencePlace]int{}
	for _, one := range parts {
		out.Resources, out.Differing = out.Resources+one.Resources, out.Differing+one.Differing
		for _, d := range one.Differences {
			i, known := index[d.Place()]
			if !known {
				i = len(out.Differences)
				index[d.Place()] = i
				out.Differences = append(out.Differences, record.ConfigDifference{Type: d.Type, Path: d.Path, First: d.First, Second: d.Second, Example: d.Example})
			}
			out.Differences[i].Resources += d.Resources
		}
	}
	slices.SortStableFunc(out.Differences, func(a, b record.ConfigDifference) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(b.Resources, a.Resources), cmp.Compare(a.Path, b.Path))
	})
}

// transcript records what a control plane sends the proxy of a pod. It connects as that proxy, since
// istiod finds a pod, and with it what is inbound, by the proxy's name. Until it is done, the control
// plane lists the pod's sidecar as connected; a move that is due waits for that.
func (t *scenarioTrial) transcript(ctx context.Context, plane mesh.Plane, pod *corev1.Pod) ([]byte, error) {
	serving, err := t.Kube.CoreV1().Pods(plane.Namespace).List(ctx, metav1.ListOptions{LabelSelector: plane.Selector})
	if err != nil {
		return nil, fmt.Errorf("list the pods of revision %s: %w", plane.Revision, err)
	}
	at := slices.IndexFunc(serving.Items, func(p corev1.Pod) bool { return lab.PodReady(&p) })
	if at < 0 {
		return nil, fmt.Errorf("revision %s has no ready pod", plane.Revision)
	}
	spec := xds.DefaultSpec(fmt.Sprintf("%s.%s:%d", plane.Deployment, plane.Namespace, plane.Discovery))
	spec.Dial = func(ctx context.Context, _ string) (net.Conn, error) {
		return t.Dialer.DialPod(ctx, plane.Namespace, serving.Items[at].Name, plane.Discovery)
	}
	proxy := xds.Proxy{Name: pod.Name, Namespace: pod.Namespace, IP: pod.Status.PodIP, ServiceAccount: pod.Spec.ServiceAccountName, Node: pod.Spec.NodeName, Labels: pod.Labels}
	if pod.Namespace != t.Namespace {
		proxy.Type = xds.NodeZtunnel
	}
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			proxy.Ports = append(proxy.Ports, xds.Port{Name: p.Name, ContainerPort: int(p.ContainerPort), Protocol: string(p.Protocol)})
		}
	}
	spec.Proxies = []xds.Proxy{proxy}
	var out bytes.Buffer
	if _, err := xds.Record(ctx, spec, &out, nil); err != nil {
		return nil, fmt.Errorf("configuration of %s from revision %s: %w", pod.Name, plane.Revision, err)
	}
	return out.Bytes(), nil
}
