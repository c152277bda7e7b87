package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/meshmark/meshmark/bench/internal/table"
	"github.com/meshmark/meshmark/record"
	"github.com/meshmark/meshmark/xds"
	"github.com/meshmark/meshmark/xds/server"
)

// endpoints of each synthetic service.
const endpoints = 2

// start serves a configuration on a port of its own.
func start(o options, serve func(*server.Server, net.Listener) error) (*server.Server, string, error) {
	c, err := server.Synthetic(o.services, endpoints)
	if err != nil {
		return nil, "", err
	}
	bytes := 0
	for t := range c {
		bytes += c.Bytes(t)
	}
	o.say("configuration of %d services: %.1f MB", o.services, float64(bytes)/1e6)
	s := server.New(c)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	go serve(s, l) // until it is closed
	return s, l.Addr().String(), nil
}

// push changes one service's endpoints so that a marker shows in them, and
// waits until every sidecar has acknowledged it.
func push(ctx context.Context, s *server.Server, f *fleet, service, n int, sidecars int) (*server.Push, xds.MarkerSightings, error) {
	marker := fmt.Sprintf("marker-%d-of-%d", n, service)
	index, err := f.announce(ctx, record.Marker{Change: n, Type: "eds", Resource: server.ClusterName(service), Text: marker})
	if err != nil {
		return nil, xds.MarkerSightings{}, err
	}
	changed, err := server.SyntheticEndpoints(service, endpoints, marker)
	if err != nil {
		return nil, xds.MarkerSightings{}, err
	}
	p := s.Push(server.Change{Type: server.EndpointType, Changed: []server.Resource{changed}})
	if p.Streams != sidecars {
		return nil, xds.MarkerSightings{}, fmt.Errorf("a push went to %d of %d sidecars", p.Streams, sidecars)
	}
	seen, err := f.seen(ctx, index, sidecars)
	return p, seen, err
}

// limit finds what a fleet costs without istiod.
func limit(ctx context.Context, o options) (results []table.Row, err error) {
	s, address, err := start(o, (*server.Server).Serve)
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
	spec.Proxies = simulated(o.proxies)
	took, err := f.connect(ctx, o, spec)
	if err != nil {
		return nil, err
	}
	counts := s.Counts()
	connected, err := f.Account(ctx)
	if err != nil {
		return nil, err
	}
	resident, peak, err := f.memory(o.proxies)
	if err != nil {
		return nil, err
	}
	o.say("%d sidecars after %.1f s", o.proxies, took.Seconds())
	n := float64(o.proxies)
	results = append(results,
		table.Of(fmt.Sprintf("%d sidecars connected to our server", o.proxies), "s", took.Seconds()),
		table.Of("received while they did", "MB/s", float64(counts.Bytes)/1e6/took.Seconds()),
		table.Of("CPU of a sidecar to connect", "ms", 1000*seconds(connected.CPU)/n),
		table.Of(fmt.Sprintf("memory of a sidecar with %d services", o.services), "KB", resident).AtMost(memoryTarget),
		table.Of("most memory of a sidecar while all connect", "KB", peak),
	)
	var rates, cpu, spread []float64
	before := connected
	for i := range o.pushes {
		p, seen, err := push(ctx, s, f, i, i, o.proxies)
		if err != nil {
			return results, err
		}
		after, err := f.Account(ctx)
		if err != nil {
			return results, err
		}
		last := slices.Max(seen.AckedNS)
		rates = append(rates, n/(float64(last-p.BeganNS)/1e9))
		cpu = append(cpu, 1e6*(seconds(after.CPU)-seconds(before.CPU))/n)
		spread = append(spread, float64(after.Lag.P99)/1000)
		before = after
	}
	resident, _, err = f.memory(o.proxies)
	return append(results,
		table.Of("memory of a sidecar after pushes", "KB", resident).AtMost(memoryTarget),
		table.Of("pushes received and acknowledged", "1/s", rates...),
		table.Of("CPU of a sidecar for a push", "us", cpu...),
		table.Of("a sidecar's lag behind the kernel while all are pushed to, p99", "ms", spread...),
	), err
}

// timed is how many sidecars are timed; each has a connection of its own.
const timed = 500

// timing compares when sidecars say that they received changes with when the
// server wrote them.
func timing(ctx context.Context, o options) (results []table.Row, err error) {
	s, address, err := start(o, (*server.Server).ServeTimed)
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
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
		p, seen, err := push(ctx, s, f, i, i, timed)
		if err != nil {
			return nil, err
		}
		wrote := map[string]int64{}
		for _, d := range p.Deliveries() {
			name := strings.Split(d.Node, "~")[2] // TYPE~IP~NAME.NAMESPACE~DOMAIN
			wrote[strings.Split(name, ".")[0]] = d.WroteNS
		}
		var errors []float64
		for j, proxy := range seen.Proxy {
			at := wrote[spec.Proxies[proxy].Name]
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
