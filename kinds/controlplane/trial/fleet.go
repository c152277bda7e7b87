package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/meshtrial/meshtrial/drive/xds"
	xdscontrol "github.com/meshtrial/meshtrial/drive/xds/control"
	"github.com/meshtrial/meshtrial/internal/jsonhttp"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/run/runner/hands"
	"github.com/meshtrial/meshtrial/run/site"
)

// simulator is a pod of simulated proxies with a connection to it.
type simulator struct {
	pod site.Pod
	api *xdscontrol.Client
}

// fleet presents the simulated proxies of a trial, in one pod or several, as one: proxies are
// numbered over all pods, and times are by the first pod's clock.
type fleet struct {
	hands.Hands
	apis    []*xdscontrol.Client
	proxies []xds.Proxy   // once all pods have started theirs
	first   []int         // number of each pod's first proxy, and the total
	clocks  []hands.Clock // relative to the first one's, before the window
	// accounts holds the latest account of each pod, and earlier the previous ones.
	accounts, earlier []xds.Part[xds.Account]
}

func newFleet(of []simulator) *fleet {
	f := &fleet{Hands: hands.Hands{What: "simulator", In: "pod"}, first: make([]int, len(of)+1), clocks: make([]hands.Clock, len(of))}
	for _, s := range of {
		f.Pods, f.apis = append(f.Pods, s.pod), append(f.apis, s.api)
	}
	return f
}

// findSimulators connects to each pod of simulated proxies.
func (c *controlPlane) findSimulators(ctx context.Context) error {
	pods, err := c.ReadyOf(ctx, site.RoleXDS, c.wanted)
	if err != nil {
		return err
	}
	c.simulators = nil
	for _, pod := range pods {
		c.simulators = append(c.simulators, simulator{site.PodOf(pod), xdscontrol.NewClient(lab.InPod, c.HTTP(pod, site.XDSControlPort))})
	}
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	if err := newFleet(c.simulators).reach(ctx); err != nil {
		return fmt.Errorf("reach the simulated sidecars: %w", err)
	}
	return nil
}

// reachTime limits how long pods may take to answer when they are found: a connection to a dead
// node may hang.
const reachTime = 30 * time.Second

// reach checks that all pods answer, and ends what still runs on them: a trial that lost its
// connections could not.
func (f *fleet) reach(ctx context.Context) error {
	return f.Each(func(i int) error {
		if _, err := f.apis[i].Version(ctx); err != nil {
			return err
		}
		_, err := f.apis[i].Stop(ctx)
		if refused(err) { // none running
			return nil
		}
		return err
	})
}

// refused reports whether a pod answered and rejected a request.
func refused(err error) bool {
	answer := (*jsonhttp.StatusError)(nil)
	return errors.As(err, &answer)
}

// ask sends all pods the same request and collects the responses.
func ask[T any](f *fleet, say func(c *xdscontrol.Client) (T, error)) ([]xds.Part[T], error) {
	out := make([]xds.Part[T], len(f.apis))
	err := f.Each(func(i int) (err error) {
		out[i].First, out[i].AheadNS = f.first[i], f.ahead(i)
		out[i].Said, err = say(f.apis[i])
		return f.Lost(err)
	})
	return out, err
}

// ahead returns the lead of a pod's clock over the first one's.
func (f *fleet) ahead(i int) int64 { return int64(f.clocks[i].Ahead) }

// start distributes the proxies over the pods, which begin to connect them.
func (f *fleet) start(ctx context.Context, spec xds.Spec) error {
	specs, err := spec.Split(len(f.apis))
	if err != nil {
		return err
	}
	f.first = xds.Divide(len(spec.Proxies), len(f.apis))
	if f.clocks, err = f.compare(ctx); err != nil {
		return err
	}
	err = f.Each(func(i int) error {
		_, err := f.apis[i].Start(ctx, specs[i])
		if refused(err) {
			return err
		}
		return f.Lost(err)
	})
	if err == nil {
		f.proxies = spec.Proxies
	}
	return err
}

// compare compares the clocks of the pods.
func (f *fleet) compare(ctx context.Context) ([]hands.Clock, error) {
	if len(f.apis) == 1 {
		return make([]hands.Clock, 1), nil
	}
	return f.Clocks(func(i int) (jsonhttp.Clock, error) { return f.apis[i].Clock(ctx) })
}

// asLost marks an error that a lost pod may have caused. A pod that has begun must still know its
// proxies.
func (f *fleet) asLost(ctx context.Context, err error) error {
	return f.AsLost(ctx, err, func(ctx context.Context, i int) (err error) {
		if f.proxies == nil {
			_, err = f.apis[i].Version(ctx)
		} else {
			_, err = f.apis[i].Status(ctx)
		}
		return err
	})
}

// stop ends all proxies.
func (f *fleet) stop(ctx context.Context) {
	_ = f.Each(func(i int) error { // an error means that none run, or that the pod is gone
		_, err := f.apis[i].Stop(ctx)
		return err
	})
}

func (f *fleet) status(ctx context.Context) (xds.Status, error) {
	all, err := ask(f, func(c *xdscontrol.Client) (xds.Status, error) { return c.Status(ctx) })
	if err != nil {
		return xds.Status{}, err
	}
	return xds.StatusOf(all), nil
}

// announce returns once all proxies look for the markers. Changes may be in progress at the same
// time, and each pod may receive their markers in a different order.
func (f *fleet) announce(ctx context.Context, markers []record.Marker) error {
	_, err := ask(f, func(c *xdscontrol.Client) (xdscontrol.Announced, error) { return c.Announce(ctx, markers) })
	return err
}

func (f *fleet) account(ctx context.Context) (xds.Account, error) {
	all, err := ask(f, func(c *xdscontrol.Client) (xds.Account, error) { return c.Account(ctx) })
	if err != nil {
		return xds.Account{}, fmt.Errorf("account of the simulated sidecars: %w", err)
	}
	f.earlier, f.accounts = f.accounts, all
	return xds.AccountOf(all), nil
}

// sightings returns the sightings of each marker, in the order in which the first pod received the
// markers. It merges them while reading: pods whose turn has not come wait.
func (f *fleet) sightings(ctx context.Context) ([]xds.MarkerSightings, error) {
	streams, err := ask(f, func(c *xdscontrol.Client) (*xdscontrol.Sightings, error) { return c.Sightings(ctx, 0) })
	defer func() {
		for _, s := range streams {
			if s.Said != nil {
				_ = s.Said.Close()
			}
		}
	}()
	if err != nil {
		return nil, err
	}
	out, parts := []xds.MarkerSightings{}, make([]xds.Part[xds.MarkerSightings], len(streams))
	others := make([]ofMarkers, len(streams))
	for i, s := range streams {
		parts[i].First, parts[i].AheadNS, others[i] = s.First, s.AheadNS, ofMarkers{s.Said, map[markerKey][]xds.MarkerSightings{}}
		if n := streams[0].Said.Count; s.Said.Count != n {
			return nil, f.Lost(fmt.Errorf("pod %s watches for %d markers, and pod %s for %d", f.Pods[i].Name, s.Said.Count, f.Pods[0].Name, n))
		}
	}
	for range streams[0].Said.Count {
		m, err := streams[0].Said.Next()
		if err != nil {
			return nil, f.Lost(fmt.Errorf("pod %s: %w", f.Pods[0].Name, err))
		}
		parts[0].Said = m
		for i := 1; i < len(parts); i++ {
			switch parts[i].Said, err = others[i].of(keyOf(m)); {
			case err == io.EOF:
				return nil, fmt.Errorf("pod %s watches for a marker of change %d, and pod %s does not", f.Pods[0].Name, m.Change, f.Pods[i].Name)
			case err != nil:
				return nil, f.Lost(fmt.Errorf("pod %s: %w", f.Pods[i].Name, err))
			}
		}
		out = append(out, xds.SightingsOf(parts))
	}
	return out, nil
}

// markerKey identifies a marker by its change. Markers of the same kind in a change are announced
// in the same order everywhere.
type markerKey struct {
	change int
	kind   string
	gone   bool
}

func keyOf(m xds.MarkerSightings) markerKey { return markerKey{m.Change, m.Type, m.Gone} }

// ofMarkers reads one pod's sightings in another pod's order.
type ofMarkers struct {
	in    *xdscontrol.Sightings
	early map[markerKey][]xds.MarkerSightings // read before their turn
}

// of returns the next sightings with a key; [io.EOF] if there are none.
func (o ofMarkers) of(key markerKey) (xds.MarkerSightings, error) {
	if early := o.early[key]; len(early) > 0 {
		if o.early[key] = early[1:]; len(early) == 1 {
			delete(o.early, key)
		}
		return early[0], nil
	}
	for {
		m, err := o.in.Next()
		if err != nil || keyOf(m) == key {
			return m, err
		}
		o.early[keyOf(m)] = append(o.early[keyOf(m)], m)
	}
}

func (f *fleet) beginOutage(ctx context.Context, drop bool) error {
	_, err := ask(f, func(c *xdscontrol.Client) (xds.Outage, error) { return c.BeginOutage(ctx, drop) })
	return err
}

func (f *fleet) outage(ctx context.Context) (xds.Outage, error) {
	all, err := ask(f, func(c *xdscontrol.Client) (xds.Outage, error) { return c.Outage(ctx) })
	if err != nil {
		return xds.Outage{}, err
	}
	return xds.OutageOf(all), nil
}

// holdings returns the kinds of all proxies.
func (f *fleet) holdings(ctx context.Context) ([]xds.Holding, error) {
	all, err := ask(f, func(c *xdscontrol.Client) ([]int64, error) { return c.Holdings(ctx) })
	if err != nil {
		return nil, err
	}
	var held []int64
	for _, p := range all {
		held = append(held, p.Said...)
	}
	if len(held) != len(f.proxies) {
		return nil, fmt.Errorf("%d of %d simulated proxies report their configuration", len(held), len(f.proxies))
	}
	return xds.Holdings(f.proxies, held), nil
}

// configuration returns the configuration of the proxy that represents a kind.
func (f *fleet) configuration(ctx context.Context, of xds.Holding) ([]byte, error) {
	i, found := slices.BinarySearch(f.first, of.Proxy)
	if !found {
		i--
	}
	of.Proxy -= f.first[i]
	return f.apis[i].Configuration(ctx, of)
}

// record returns what each of several pods did in the window; after holds their clocks after it.
func (f *fleet) record(after []hands.Clock) []record.Simulator {
	if len(f.Pods) == 1 || len(f.earlier) == 0 {
		return nil
	}
	out := make([]record.Simulator, len(f.Pods))
	for i, pod := range f.Pods {
		a := f.accounts[i].Said
		out[i] = record.Simulator{Pod: pod.Name, Node: pod.Node, Proxies: f.first[i+1] - f.first[i], CPU: a.CPU.Minus(f.earlier[i].Said.CPU),
			Lag: a.Lag, RSSBytes: a.RSSBytes, Before: f.clocks[i].Record(), After: after[i].Record()}
	}
	return out
}
