package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/meshtrial/meshtrial/bench/internal/labs"
	"github.com/meshtrial/meshtrial/bench/internal/programs"
	"github.com/meshtrial/meshtrial/bench/internal/table"
	"github.com/meshtrial/meshtrial/observe/procfs"
)

// ticks are those of processors' accounts in a second (USER_HZ, which is 100
// on every architecture that Go runs on).
const ticks = 100

// rate compares servers on one core.
func rate(ctx context.Context, o *options) ([]table.Row, error) {
	if programs.Find("taskset") == "" {
		return nil, errors.New("taskset is missing, which keeps servers on one core; get it by apt-get install util-linux")
	}
	address, err := programs.FreeAddress()
	if err != nil {
		return nil, err
	}
	args := []string{"worker", "--http", address}
	for _, other := range []string{"control", "health", "http2", "grpc", "tcp", "https", "grpcs", "tcps"} {
		args = append(args, "--"+other, "off")
	}
	worker, err := programs.Serve(ctx, "http://"+address+"/", o.serverCPU, labs.Program, args...)
	if err != nil {
		return nil, err
	}
	defer worker.Stop()
	servers := []*programs.Server{worker}
	if path := programs.Find("nginx"); path != "" {
		nginx, err := programs.Nginx(ctx, path, o.dir, o.serverCPU)
		if err != nil {
			return nil, err
		}
		defer nginx.Stop()
		servers = append(servers, nginx)
	} else {
		fmt.Fprintln(o.stderr, "nginx is not installed: nothing to compare the worker with; get it by apt-get install nginx-light")
	}
	rps, cost := make([][]float64, len(servers)), make([][]float64, len(servers))
	for round := range o.rounds {
		fmt.Fprintf(o.stderr, "rate: round %d of %d\n", round+1, o.rounds)
		for i := range servers {
			k := (i + round) % len(servers)
			reached, micros, err := flood(ctx, o, servers[k])
			if err != nil {
				return nil, err
			}
			rps[k], cost[k] = append(rps[k], reached), append(cost[k], micros)
		}
	}
	rows := []table.Row{
		table.Of("one worker on one core, HTTP/1.1", "requests/s", rps[0]...).AtLeast(rateTarget),
		table.Of("one worker on one core, HTTP/1.1", "us CPU/request", cost[0]...),
	}
	if len(servers) > 1 {
		ratios := make([]float64, o.rounds)
		for i := range ratios {
			ratios[i] = cost[1][i] / cost[0][i]
		}
		rows = append(rows, table.Of("nginx on the same core", "us CPU/request", cost[1]...), table.Of("requests/CPU-s over nginx's", "ratio", ratios...))
	}
	return rows, nil
}

// flood sends as much as a server takes over 16 connections; it returns
// requests answered a second, and the server's CPU for each, us.
func flood(ctx context.Context, o *options, s *programs.Server) (rps, micros float64, err error) {
	before, err := cpuOf(s.PID())
	if err != nil {
		return 0, 0, err
	}
	report, err := programs.Load(ctx, labs.Program, o.clientCPU, s.URL, o.each, "--rate", "max")
	if err != nil {
		return 0, 0, err
	}
	after, err := cpuOf(s.PID())
	if err != nil {
		return 0, 0, err
	}
	return report.AchievedRPS, (after - before) * 1e6 / float64(report.Completed), nil
}

// cpuOf is the processor time of a process and its children so far, seconds.
func cpuOf(pid int) (float64, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	sum, found := uint64(0), false
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		p, err := procfs.ParseProcess(data)
		if err != nil {
			return 0, err
		}
		if p.PID == pid || p.Parent == pid {
			sum, found = sum+p.User+p.System, found || p.PID == pid
		}
	}
	if !found {
		return 0, fmt.Errorf("process %s has ended", strconv.Itoa(pid))
	}
	return float64(sum) / ticks, nil
}
