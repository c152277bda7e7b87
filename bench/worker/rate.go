package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/meshtrial/meshtrial/bench/internal/labs"
	"github.com/meshtrial/meshtrial/bench/internal/programs"
	"github.com/meshtrial/meshtrial/bench/internal/table"
	"github.com/meshtrial/meshtrial/observe/procfs"
)

// rate compares servers on one core.
func (o *options) rate(ctx context.Context) ([]table.Row, error) {
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
		fmt.Fprintln(os.Stderr, "nginx is not installed: nothing to compare the worker with; get it by apt-get install nginx-light")
	}
	floods, err := table.Rounds("rate", o.rounds, len(servers), func(i int) (served, error) { return o.flood(ctx, servers[i]) })
	if err != nil {
		return nil, err
	}
	ours := floods[0]
	rows := []table.Row{
		table.Of("one worker on one core, HTTP/1.1", "requests/s", table.Each(ours, func(s served) float64 { return s.rps })...).AtLeast(rateTarget),
		table.Of("one worker on one core, HTTP/1.1", "us CPU/request", table.Each(ours, served.micros)...),
	}
	if len(servers) > 1 {
		rows = append(rows, table.Of("nginx on the same core", "us CPU/request", table.Each(floods[1], served.micros)...),
			table.Of("requests/CPU-s over nginx's", "ratio", table.Ratios(floods[1], ours, served.micros)...))
	}
	return rows, nil
}

// served is the result of a server.
type served struct {
	rps      float64 // answered
	cpu      float64 // seconds
	requests float64
}

func (s served) micros() float64 { return s.cpu * 1e6 / s.requests }

// flood sends as much as a server can handle over 16 connections.
func (o *options) flood(ctx context.Context, s *programs.Server) (served, error) {
	before, err := cpuOf(s.PID())
	if err != nil {
		return served{}, err
	}
	report, _, err := programs.Load(ctx, labs.Program, o.clientCPU, s.URL, o.each, "--rate", "max")
	if err != nil {
		return served{}, err
	}
	after, err := cpuOf(s.PID())
	return served{report.AchievedRPS, after - before, float64(report.Completed)}, err
}

// cpuOf returns the CPU time of a process and its children so far, in seconds.
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
		return 0, fmt.Errorf("process %d has ended", pid)
	}
	return float64(sum) * procfs.TickNS / 1e9, nil
}
