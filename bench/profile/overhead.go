package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/meshtrial/meshtrial/bench/internal/labs"
	"github.com/meshtrial/meshtrial/bench/internal/programs"
	"github.com/meshtrial/meshtrial/bench/internal/table"
	"github.com/meshtrial/meshtrial/lab/components"
	"github.com/meshtrial/meshtrial/observe/procfs"
	"github.com/meshtrial/meshtrial/observe/profile/perf"
	"github.com/meshtrial/meshtrial/stat"
)

// overheadTarget is the maximum CPU overhead of profiling, in percent.
const overheadTarget = 2

// envoyConf configures a proxy like a sidecar in front of nginx.
const envoyConf = `
admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}
static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: %[1]s}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: in
          route_config: {virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: upstream}}]}]}
          http_filters: [{name: envoy.filters.http.router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]
  clusters:
  - name: upstream
    load_assignment: {cluster_name: upstream, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: %[2]s, port_value: %[3]s}}}}]}]}
`

// overheadOptions are the options of the part overhead.
type overheadOptions struct {
	pairs, hz, rate      int
	graph                string
	each                 time.Duration
	serverCPU, clientCPU int
}

// overhead measures what perf adds to the CPU of each request of a loaded
// Envoy, in pairs of windows with and without perf in random order, with a
// paired interval. Both windows have the same schedule of requests.
func overhead(ctx context.Context, o overheadOptions) (rows []table.Row, err error) {
	for name, debian := range map[string]string{"taskset": "util-linux", "nginx": "nginx-light"} {
		if programs.Find(name) == "" {
			return nil, fmt.Errorf("%s is missing, which this bench needs: apt-get install %s", name, debian)
		}
	}
	dir, err := os.MkdirTemp("", "meshtrial-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	nginx, err := programs.Nginx(ctx, programs.Find("nginx"), dir, o.clientCPU)
	if err != nil {
		return nil, err
	}
	defer nginx.Stop()
	envoy, err := startEnvoy(ctx, dir, nginx.URL, o.serverCPU)
	if err != nil {
		return nil, err
	}
	defer envoy.Stop()
	if _, _, err := o.window(ctx, envoy, false); err != nil { // warm-up
		return nil, err
	}
	var with, without, more []float64
	samples := 0
	r := rand.New(rand.NewPCG(1, 2))
	for pair := range o.pairs {
		fmt.Fprintf(os.Stderr, "overhead: pair %d of %d\n", pair+1, o.pairs)
		var micros [2]float64 // with perf, without
		first := r.IntN(2)
		for _, which := range []int{first, 1 - first} {
			cost, n, err := o.window(ctx, envoy, which == 0)
			if err != nil {
				return nil, err
			}
			micros[which], samples = cost, samples+n
		}
		with, without = append(with, micros[0]), append(without, micros[1])
		more = append(more, 100*(micros[0]/micros[1]-1))
	}
	e := stat.Mean(more, stat.Options{})
	fmt.Fprintf(os.Stderr, "overhead: %d samples; %.2f%% more CPU with perf, 95%% interval %.2f to %.2f%% over %d pairs\n",
		samples, e.Value, e.Low, e.High, e.Blocks)
	what := fmt.Sprintf("Envoy at %d requests/s", o.rate)
	return []table.Row{
		table.Of(what, "us CPU/request", without...),
		table.Of(what+", profiled at "+strconv.Itoa(o.hz)+" Hz", "us CPU/request", with...),
		table.Of("CPU that profiling adds, mean of pairs", "%", e.Value),
		table.Of("its 95% interval, from", "%", e.Low),
		table.Of("its 95% interval, to", "%", e.High).AtMost(overheadTarget), // an inconclusive interval misses the target
	}, nil
}

// startEnvoy starts the lab's own Envoy with one worker on one core.
func startEnvoy(ctx context.Context, dir, upstream string, cpu int) (*programs.Server, error) {
	builder, err := components.New(components.Options{})
	if err != nil {
		return nil, err
	}
	set, err := builder.Ensure(ctx, "envoy")
	if err != nil {
		return nil, err
	}
	program, ok := set.Program("envoy")
	if !ok {
		return nil, errors.New("there is no Envoy among the components")
	}
	address, err := programs.FreeAddress()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	to, err := url.Parse(upstream)
	if err != nil {
		return nil, err
	}
	conf := filepath.Join(dir, "envoy.yaml")
	if err := os.WriteFile(conf, fmt.Appendf(nil, envoyConf, port, to.Hostname(), to.Port()), 0o644); err != nil {
		return nil, err
	}
	return programs.Serve(ctx, "http://"+address+"/", cpu, program.Path,
		"-c", conf, "--concurrency", "1", "-l", "error", "--disable-hot-restart")
}

// window loads the proxy for a time, profiled or not, and returns its CPU per
// request in microseconds, and the samples taken.
func (o overheadOptions) window(ctx context.Context, envoy *programs.Server, profiled bool) (
	micros float64, samples int, err error,
) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type taken struct {
		r   perf.Recording
		err error
	}
	done := make(chan taken, 1)
	if profiled {
		started := make(chan struct{})
		go func() {
			// What it does after sampling falls outside the window.
			r, err := perf.Tool{}.Record(ctx, perf.Options{PIDs: []int{envoy.PID()}, Hz: o.hz, Graph: o.graph,
				Length: o.each + 2*time.Second, Started: func() { close(started) }})
			done <- taken{r, err}
		}()
		select {
		case <-started:
		case t := <-done:
			return 0, 0, fmt.Errorf("perf: %w", t.err)
		}
	}
	before, err := ranOf(envoy.PID())
	if err != nil {
		return 0, 0, err
	}
	report, err := programs.Load(ctx, labs.Program, o.clientCPU, envoy.URL, o.each,
		"--rate", strconv.Itoa(o.rate), "--arrival", "uniform")
	if err != nil {
		return 0, 0, err
	}
	after, err := ranOf(envoy.PID())
	if err != nil {
		return 0, 0, err
	}
	if profiled {
		t := <-done
		if t.err != nil {
			return 0, 0, fmt.Errorf("perf: %w", t.err)
		}
		if samples = t.r.Profile.Len(); samples == 0 {
			return 0, 0, errors.New("perf took no sample of a proxy under load")
		}
	}
	return (after - before) * 1e6 / float64(report.Completed), samples, nil
}

// ranOf returns how long a process's threads have run, in seconds, by the
// scheduler's own accounting.
func ranOf(pid int) (float64, error) {
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*/schedstat", pid))
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return 0, err // Envoy's threads do not end
		}
		s, err := procfs.ParseSchedstat(data)
		if err != nil {
			return 0, err
		}
		sum += float64(s.RunNS) / 1e9
	}
	if len(paths) == 0 {
		return 0, fmt.Errorf("process %d has ended", pid)
	}
	return sum, nil
}
