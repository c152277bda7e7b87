package app

import (
	"math"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/advise/assess"
	"github.com/meshtrial/meshtrial/observe/kubelet"
)

// What a sidecar used while its requests were counted is over the samples since the first count.
func TestUsageWhileCounted(t *testing.T) {
	c := kubelet.Container{Pod: "shop/web-1", Name: "istio-proxy"}
	r := &meshRead{proxies: []assess.Proxy{{Kind: assess.Sidecar}}, containers: []kubelet.Container{c}}
	began := time.Unix(1_790_000_000, 0)
	sample := func(second int, used uint64) kubelet.Stats {
		var s kubelet.Stats
		s.CPU.At, s.CPU.UsedNS, s.Memory, s.MemoryAt = began.Add(time.Duration(second)*time.Second), used*1e9, 1, began
		return s
	}
	u := &usages{first: map[kubelet.Container]kubelet.Stats{}, last: map[kubelet.Container]kubelet.Stats{}, marked: map[string]time.Time{}, since: map[kubelet.Container]kubelet.Stats{}}
	u.add(c, sample(0, 0))
	u.add(c, sample(10, 9)) // it starts up
	u.mark("shop/web-1", began.Add(12*time.Second))
	u.add(c, sample(20, 10))
	u.tell(r)
	if p := r.proxies[0]; p.Cores == nil || math.Abs(*p.Cores-0.5) > 1e-9 || !math.IsNaN(*p.CoresCounted) {
		t.Errorf("of one sample: %+v", p)
	}
	u.add(c, sample(40, 12))
	u.tell(r)
	if p := r.proxies[0]; math.Abs(*p.Cores-0.3) > 1e-9 || p.CoresCounted == nil || math.Abs(*p.CoresCounted-0.1) > 1e-9 {
		t.Errorf("%+v", p)
	}
}
