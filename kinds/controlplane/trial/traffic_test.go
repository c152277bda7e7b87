package trial

import (
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/kinds/controlplane"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/site"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/testing/must"
)

// attempted returns a line of the sidecar's log, ms after time 0, by a clock that is 7 ms ahead.
func attempted(ms int64, host string, code int, flags, id string, tookMS int64) mesh.AttemptLine {
	l := mesh.AttemptLine{StartNS: (ms + 7) * 1e6, Code: code, Flags: flags, ID: id, TookMS: tookMS}
	if host != "" {
		l.Host = netip.MustParseAddrPort(host + ":8080")
	}
	return l
}

// failed returns the same request's line as the caller saw it.
func failed(l mesh.AttemptLine) mesh.AttemptLine {
	l.Request = true
	return l
}

// twoPods: 10.0.0.1 is gone at 1000 ms and ended at 2000, 10.0.0.2 stays.
func twoPods() *addressBook {
	b := newAddressBook()
	b.update("s", map[string]bool{"10.0.0.1": true, "10.0.0.2": true}, 1)
	b.update("s", map[string]bool{"10.0.0.2": true}, 1000*1e6)
	b.ended("10.0.0.1", "pod-1", 2000*1e6)
	return b
}

func TestExposure(t *testing.T) {
	const gone, there = "10.0.0.1", "10.0.0.2"
	for _, c := range []struct {
		name  string
		lines []mesh.AttemptLine
		want  record.Traffic
	}{
		{"nobody met it", []mesh.AttemptLine{
			attempted(10, gone, 200, "-", "a", 1), attempted(999, gone, 200, "-", "b", 1), attempted(1500, there, 200, "-", "c", 1),
		}, record.Traffic{Attempts: 3}},
		{"served on its way out", []mesh.AttemptLine{attempted(1000, gone, 200, "-", "a", 1)},
			record.Traffic{Attempts: 1, PhantomAttempts: 1, PhantomRequests: 1, PhantomServed: 1}},
		{"the dying pod's sidecar says 503, which is not retried", []mesh.AttemptLine{
			attempted(1500, gone, 503, "-", "a", 1), failed(attempted(1500, gone, 503, "-", "a", 1)),
		}, record.Traffic{Attempts: 1, PhantomAttempts: 1, PhantomFailed: 1, PhantomRequests: 1, PhantomFailures: 1, LastPhantomUS: 500_000,
			ProxyFailed: map[string]int64{"503": 1}, PhantomFlags: map[string]int64{"503": 1}}},
		{"saved by a retry", []mesh.AttemptLine{
			attempted(2500, gone, 0, "UF", "a", 10_000), attempted(12_500, there, 200, "-", "a", 1),
		}, record.Traffic{Attempts: 2, Unconnected: 1, PhantomAttempts: 1, PhantomEnded: 1, PhantomFailed: 1, PhantomRequests: 1, PhantomHidden: 1,
			LastPhantomUS: 1_500_000, HiddenMaxUS: 10_000_000, PhantomFlags: map[string]int64{"UF": 1}}},
		{"all retries in vain", []mesh.AttemptLine{
			attempted(2500, gone, 0, "UF", "a", 10), attempted(2510, gone, 0, "UF", "a", 10), failed(attempted(2500, gone, 503, "URX,UF", "a", 20)),
		}, record.Traffic{Attempts: 2, Unconnected: 2, PhantomAttempts: 2, PhantomEnded: 2, PhantomFailed: 2, PhantomRequests: 1, PhantomFailures: 1,
			LastPhantomUS: 1_510_000, ProxyFailed: map[string]int64{"URX,UF": 1}, PhantomFlags: map[string]int64{"UF": 2}}},
		{"the caller gave up", []mesh.AttemptLine{
			attempted(2500, gone, 0, "-", "a", 5000), failed(attempted(2500, gone, 0, "DC", "a", 5000)),
		}, record.Traffic{Attempts: 1, GivenUp: 1, PhantomAttempts: 1, PhantomEnded: 1, PhantomFailed: 1, PhantomRequests: 1, PhantomFailures: 1, LastPhantomUS: 1_500_000,
			ProxyFailed: map[string]int64{"DC": 1}, PhantomFlags: map[string]int64{"given up": 1}}},
		{"failures elsewhere are not its", []mesh.AttemptLine{
			failed(attempted(500, "", 503, "UH", "a", 0)), attempted(1500, there, 503, "-", "b", 1), failed(attempted(1500, there, 503, "-", "b", 1)),
		}, record.Traffic{Attempts: 1, ProxyFailed: map[string]int64{"UH": 1, "503": 1}}},
		{"served there, failed for another reason", []mesh.AttemptLine{
			attempted(1500, gone, 200, "-", "a", 1), failed(attempted(1500, gone, 200, "DC", "a", 1)),
		}, record.Traffic{Attempts: 1, PhantomAttempts: 1, PhantomRequests: 1, PhantomServed: 1, LastPhantomUS: 500_000, ProxyFailed: map[string]int64{"DC": 1}}},
		{"no end that is known", []mesh.AttemptLine{attempted(2500, gone, 0, "UF", "a", 10)},
			record.Traffic{Attempts: 1, Unconnected: 1, PhantomAttempts: 1, PhantomEnded: 1, PhantomFailed: 1, PhantomRequests: 1, PhantomOpen: 1,
				LastPhantomUS: 1_500_000, PhantomFlags: map[string]int64{"UF": 1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := exposure(c.lines, twoPods(), 7*time.Millisecond)
			c.want.Gone = 1
			if !maps.Equal(got.ProxyFailed, c.want.ProxyFailed) || !maps.Equal(got.PhantomFlags, c.want.PhantomFlags) {
				t.Errorf("failed %v, there %v; want %v, %v", got.ProxyFailed, got.PhantomFlags, c.want.ProxyFailed, c.want.PhantomFlags)
			}
			got.ProxyFailed, got.PhantomFlags, got.Failed = nil, nil, nil
			c.want.ProxyFailed, c.want.PhantomFlags = nil, nil
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
			if got.PhantomRequests != got.PhantomServed+got.PhantomHidden+got.PhantomFailures+got.PhantomOpen {
				t.Errorf("the fates do not add up: %+v", got)
			}
		})
	}
}

// An address that another pod takes over belongs to that pod from then on, and one that moves
// between EndpointSlices is never gone.
func TestAddressBook(t *testing.T) {
	b := twoPods()
	b.update("t", map[string]bool{"10.0.0.2": true}, 2500e6)
	b.update("s", nil, 2600e6)
	b.update("s", map[string]bool{"10.0.0.1": true}, 3000e6)
	b.update("s", nil, 4000e6)
	b.ended("10.0.0.1", "pod-1", 4100e6) // reported once more
	for _, c := range []struct {
		address   string
		ms, since int64
		ended, ok bool
	}{
		{"10.0.0.1", 999, 0, false, false}, {"10.0.0.1", 1000, 1000, false, true}, {"10.0.0.1", 2100, 1000, true, true},
		{"10.0.0.1", 3500, 0, false, false}, {"10.0.0.1", 4500, 4000, false, true}, {"10.0.0.2", 2700, 0, false, false}, {"10.9.9.9", 2700, 0, false, false},
	} {
		since, ended, ok := b.gone(c.address, c.ms*1e6)
		if since != c.since*1e6 || ended != c.ended || ok != c.ok {
			t.Errorf("%s at %d ms: gone since %d ms, ended %v, %v", c.address, c.ms, since/1e6, ended, ok)
		}
	}
	if b.went() != 2 {
		t.Errorf("%d went", b.went())
	}
}

// Addresses according to the API server's objects.
func TestAddressBookWatches(t *testing.T) {
	b := newAddressBook()
	slice := func(ready bool) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: site.Ptr(ready)}}}}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: corev1.PodStatus{PodIP: "10.0.0.1", ContainerStatuses: []corev1.ContainerStatus{{}, {}}}}
	state := func(now string) string {
		_, ended, gone := b.gone("10.0.0.1", time.Now().UnixNano())
		return fmt.Sprintf("%s: gone %v, ended %v", now, gone, ended)
	}
	b.onSlice(slice(true), false)
	got := []string{state("ready")}
	b.onSlice(slice(false), false)
	got = append(got, state("not ready"))
	pod.Status.ContainerStatuses[0].State.Terminated = &corev1.ContainerStateTerminated{}
	b.onPod(pod, false)
	got = append(got, state("one container ended"))
	pod.Status.ContainerStatuses[1].State.Terminated = &corev1.ContainerStateTerminated{}
	b.onPod(pod, false)
	got = append(got, state("both ended"))
	want := "ready: gone false, ended false\nnot ready: gone true, ended false\none container ended: gone true, ended false\nboth ended: gone true, ended true"
	if strings.Join(got, "\n") != want {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
}

// What changes the endpoints of real pods, and what does not.
func TestChurnOnTraffic(t *testing.T) {
	const text = `
name: t
question: Who?
control: {changes: 2, traffic: {rate: 50, endpoints: 3}}
settings: {services: 4, endpoints: 1, proxies: 2, change: CHANGE}
`
	for _, c := range []struct {
		change string
		set    []string
		on     bool
		fail   string
	}{
		{change: "endpoints-replace", on: true}, {change: "endpoints-scale", on: true}, {change: "rolling-restart", on: true},
		{change: "endpoints-flap"}, {change: "mixed"}, {change: "service"},
		{change: "service", set: []string{"control.traffic.rate=0"}, fail: "rate 0"},
	} {
		t.Run(strings.Join(append([]string{c.change}, c.set...), " "), func(t *testing.T) {
			s, err := study.Parse([]byte(strings.Replace(text, "CHANGE", c.change, 1)), "t.yaml", c.set)
			if c.fail != "" {
				if err == nil || !strings.Contains(err.Error(), c.fail) {
					t.Errorf("%v", err)
				}
				return
			}
			must.OK(t, err)
			plan, err := study.NewPlan(s, 1)
			must.OK(t, err)
			if err := checkControl(plan); err != nil {
				t.Error(err)
			}
			l, err := controlplane.LevelsOf(plan.Cells[0])
			must.OK(t, err)
			on := churnSpec(s, plan.Cells[0], l, "t", 1).On
			if (on != nil) != c.on || on != nil && (on.Namespace != "mm-0" || on.Endpoints != 3 || on.Cluster("") != "outbound|80||traffic.mm-0.svc.cluster.local") {
				t.Errorf("on %+v", on)
			}
		})
	}
}
