package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/bench/internal/table"
	"github.com/meshtrial/meshtrial/drive/xds"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/testing/xdsserver"
)

// endpoints of each synthetic service.
const endpoints = 2

// start serves a configuration on a new port, and times what it writes.
func start(c xdsserver.Configuration) (*xdsserver.Server, string, error) {
	s := xdsserver.New(c)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	go s.Serve(l) // until it is closed
	return s, l.Addr().String(), nil
}

// push changes the endpoints of one service to ones whose metadata identifies the
// push to sidecars, and waits until every sidecar has received them.
func push(ctx context.Context, s *xdsserver.Server, f *fleet, service, n, sidecars int) (
	*xdsserver.Push, xds.MarkerSightings, error) {
	text := fmt.Sprintf("change-%d-end", n)
	changed, err := xdsserver.SyntheticEndpoints(service, endpoints, text)
	if err != nil {
		return nil, xds.MarkerSightings{}, err
	}
	index, err := f.announce(ctx, record.Marker{Change: n, Type: "eds", Resource: changed.Name, Text: text})
	if err != nil {
		return nil, xds.MarkerSightings{}, err
	}
	p := s.Push(xdsserver.Change{Type: xdsserver.EndpointType, Changed: []xdsserver.Resource{changed}})
	if p.Streams != sidecars {
		return nil, xds.MarkerSightings{}, fmt.Errorf("a push went to %d of %d sidecars", p.Streams, sidecars)
	}
	seen, err := f.seen(ctx, index, sidecars)
	return p, seen, err
}

// timed is the number of timed sidecars, each with a separate connection.
const timed = 500

// timing compares when sidecars report having received changes with when the
// server wrote them.
func (o *options) timing(ctx context.Context) (results []table.Row, err error) {
	c, err := xdsserver.Synthetic(o.services, endpoints)
	if err != nil {
		return nil, err
	}
	s, address, err := start(c)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	f, err := newFleet(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	spec := xds.DefaultSpec(address)
	spec.StreamsPerConnection = 1
	spec.Proxies = simulated(timed)
	if _, err := f.connect(ctx, o, spec); err != nil {
		return nil, err
	}
	var p50, p99, most []float64
	for i := range 4 * o.pushes {
		if err := wake.Pause(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
		p, seen, err := push(ctx, s, f, i%o.services, i, timed)
		if err != nil {
			return nil, err
		}
		// A sidecar sends its acknowledgement before the server reads it.
		wrote := p.Wrote()
		for begin := time.Now(); len(wrote) < timed && time.Since(begin) < pushLimit; wrote = p.Wrote() {
			if err := wake.Pause(ctx, 10*time.Millisecond); err != nil {
				return nil, err
			}
		}
		byName := map[string]int64{}
		for node, at := range wrote {
			name := strings.Split(node, "~")[2] // TYPE~IP~NAME.NAMESPACE~DOMAIN
			byName[strings.Split(name, ".")[0]] = at
		}
		var errors []float64
		for j, proxy := range seen.Proxy {
			at := byName[spec.Proxies[proxy].Name]
			if at == 0 {
				return nil, fmt.Errorf("the server did not time a write to %s", spec.Proxies[proxy].Name)
			}
			errors = append(errors, float64(seen.ReceivedNS[j]-at)/1e6)
		}
		slices.Sort(errors)
		if len(errors) < timed {
			return nil, fmt.Errorf("%d of %d sidecars saw a change", len(errors), timed)
		}
		p50 = append(p50, errors[len(errors)/2])
		p99 = append(p99, errors[len(errors)*99/100])
		most = append(most, max(errors[len(errors)-1], -errors[0]))
	}
	name := fmt.Sprintf("time of reception less time of writing, %d sidecars, ", timed)
	return []table.Row{
		table.Of(name+"p50", "ms", p50...),
		table.Of(name+"p99", "ms", p99...).AtMost(timingTarget),
		table.Of(name+"largest", "ms", most...),
	}, nil
}
