package churn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshtrial/meshtrial/record"
)

// podChange carries out a change by way of the controllers: it finds the
// pods, announces what is known, sends the request at its time, and follows
// pods and EndpointSlices until both show it.
func (d *Driver) podChange(ctx context.Context, c *Change, e *record.Event, slots chan struct{}, announce Announce) {
	p := c.pods
	victims, err := d.victims(ctx, p)
	if err != nil {
		fail(e, "find its pods", err)
		return
	}
	if len(victims) > 0 {
		pod := victims[len(victims)-1]
		e.Object = "Pod/" + pod.Namespace + "/" + pod.Name
	}
	if p.op == podRestart || p.op == podScaleUp || p.op == podScaleDown {
		e.Object = c.Object
	}
	s := newPodSight(c, victims)
	if known := s.known(victims); len(known) > 0 {
		e.Markers = append(e.Markers, known...)
		if err := announce(ctx, known); err != nil {
			fail(e, "announce its markers", err)
			return
		}
	}
	if until(ctx, time.Unix(0, e.PlannedNS)) != nil {
		return
	}
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return
	}
	s.old = d.watch.ready(p.service)
	waiter := d.watch.wait(p.service, s.look)
	defer d.watch.forget(p.service, waiter)
	e.SentNS = time.Now().UnixNano()
	err = d.act(ctx, p, victims)
	<-slots
	switch {
	case err != nil:
		fail(e, "", err)
	case p.op == podLabel: // istiod looks at the pod itself
		e.CommittedNS = time.Now().UnixNano()
	default:
		s.follow(ctx, e, waiter, announce)
	}
}

// fail notes what went wrong with a change, if nothing did before.
func fail(e *record.Event, what string, err error) {
	if e.Error == "" {
		e.Error = strings.TrimSuffix(what+": "+err.Error(), ": ")
	}
}

// podSight is what a change of pods must bring about in the endpoints of its
// Service, and what has been seen of that. A watch writes shown, left
// and committed until its waiter has finished or is forgotten.
type podSight struct {
	change    *Change
	gone      map[string]bool // addresses that must go
	fresh     int             // addresses that must come
	returning string          // the address that must be ready again; "" for none
	old       map[string]bool // addresses that were ready before

	shown     map[string]bool  // new addresses that were ready
	left      map[string]int64 // when an old one was so no longer
	committed int64            // when all had come and gone
	ready     chan string      // new addresses, as they come
	announced map[string]bool  // addresses that come
}

func newPodSight(c *Change, victims []*corev1.Pod) *podSight {
	s := &podSight{change: c, gone: map[string]bool{}, shown: map[string]bool{}, left: map[string]int64{},
		ready: make(chan string, maxWaiting), announced: map[string]bool{}}
	switch c.pods.op {
	case podReplace, podRestart:
		s.fresh = len(victims)
	case podScaleUp:
		s.fresh = 1
	case podReady:
		s.returning = victims[0].Status.PodIP
	}
	switch c.pods.op {
	case podScaleDown, podReplace, podUnready, podRestart:
		for _, pod := range victims {
			s.gone[pod.Status.PodIP] = true
		}
	}
	return s
}

// known are the markers that are known before the change.
func (s *podSight) known(victims []*corev1.Pod) []record.Marker {
	var out []record.Marker
	for _, pod := range victims {
		if ip := pod.Status.PodIP; s.gone[ip] || ip == s.returning {
			out = append(out, s.markers(ip, s.gone[ip])...)
		}
	}
	return out
}

// markers of an address that comes or goes.
func (s *podSight) markers(ip string, gone bool) []record.Marker {
	out := []record.Marker{eds(s.change.pods.service, ip, gone)}
	if s.change.Scope.Ztunnels {
		out = append(out, workload(ip, gone))
	}
	for i := range out {
		out[i].Change = s.change.Index
	}
	return out
}

// look notes what endpoints are ready, and says whether all is as it must be.
func (s *podSight) look(now map[string]bool, at int64) bool {
	came := 0
	for ip := range now {
		if s.old[ip] {
			continue
		}
		came++
		if !s.shown[ip] {
			s.shown[ip] = true
			select {
			case s.ready <- ip:
			default: // the pod's own watch has them all too
			}
		}
	}
	departures(s.gone, now, s.left, at)
	if len(s.left) < len(s.gone) || came < s.fresh || s.returning != "" && !now[s.returning] {
		return false
	}
	s.committed = at
	return true
}

// departures notes in left when addresses that must go were ready no longer.
// One that is back, as a new pod may be given it, has not gone.
func departures(gone, ready map[string]bool, left map[string]int64, at int64) {
	for ip := range gone {
		if ready[ip] {
			delete(left, ip)
		} else if left[ip] == 0 {
			left[ip] = at
		}
	}
}

// follow announces addresses as they come, from whichever watch has them
// first, until the endpoints are as they must be and all new ones are
// announced.
func (s *podSight) follow(ctx context.Context, e *record.Event, waiter *waiter, announce Announce) {
	limit := time.NewTimer(settle)
	defer limit.Stop()
	for finished := waiter.finished; finished != nil || len(s.announced) < s.fresh; {
		var err error
		select {
		case pod := <-waiter.pods:
			if pod.DeletionTimestamp == nil {
				err = s.came(ctx, e, pod.Status.PodIP, announce)
			}
		case ip := <-s.ready:
			err = s.came(ctx, e, ip, announce)
		case <-finished:
			finished = nil
			s.commit(e)
		case <-limit.C:
			fail(e, fmt.Sprintf("its EndpointSlice did not follow within %s", settle), errors.New(""))
			return
		case <-ctx.Done():
			return
		}
		if err != nil {
			fail(e, "announce its markers", err)
			return
		}
	}
}

// came announces an address that comes, if that has not been done.
func (s *podSight) came(ctx context.Context, e *record.Event, ip string, announce Announce) error {
	if s.fresh == 0 || s.old[ip] || s.gone[ip] || s.announced[ip] {
		return nil
	}
	m := s.markers(ip, false)
	e.Markers = append(e.Markers, m...)
	if err := announce(ctx, m); err != nil {
		return err
	}
	s.announced[ip] = true
	return nil
}

// commit notes when the endpoints were as they must be.
func (s *podSight) commit(e *record.Event) {
	e.CommittedNS, e.WatchedNS = s.committed, s.committed
	for i := range e.Markers {
		if m := &e.Markers[i]; m.Gone {
			m.GoneNS = s.left[m.Text]
		}
	}
}
