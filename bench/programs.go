package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/bench/internal/labs"
	"github.com/meshtrial/meshtrial/bench/internal/programs"
	"github.com/meshtrial/meshtrial/drive/load"
)

// bench holds the programs to compare, and where they run.
type bench struct {
	dir                  string // for our files; removed at the end
	wrk, fortio          string
	serverCPU, clientCPU int
	rounds               int
	each                 time.Duration
	url                  string
	stopNginx            func()
}

// needs lists the programs and how to get them.
var needs = []struct{ name, how string }{
	{"taskset", "apt-get install util-linux"},
	{"wrk", "apt-get install wrk"},
	{"nginx", "apt-get install nginx-light"},
	{"fortio", "go install fortio.org/fortio@v1.66.5"},
}

// open finds the programs and starts the server.
func (b *bench) open(ctx context.Context) (err error) {
	var missing []string
	found := map[string]string{}
	if _, err := os.Stat(labs.Program); err != nil {
		missing = append(missing, fmt.Sprintf("  %-8s make build, and start this in the same folder", "meshtrial"))
	}
	for _, need := range needs {
		if found[need.name] = programs.Find(need.name); found[need.name] == "" {
			missing = append(missing, fmt.Sprintf("  %-8s %s", need.name, need.how))
		}
	}
	if missing != nil {
		return fmt.Errorf("programs are missing that this bench runs; get them by\n%s", strings.Join(missing, "\n"))
	}
	b.wrk, b.fortio = found["wrk"], found["fortio"]
	if b.dir, err = os.MkdirTemp("", "meshtrial-bench-"); err != nil {
		return err
	}
	server, err := programs.Nginx(ctx, found["nginx"], b.dir, b.serverCPU)
	if err != nil {
		return errors.Join(err, os.RemoveAll(b.dir))
	}
	b.url, b.stopNginx = server.URL, server.Stop
	return nil
}

func (b *bench) close() error {
	b.stopNginx()
	return os.RemoveAll(b.dir)
}

// trial is the result of one run of a generator.
type trial struct {
	requests float64
	cpu      float64 // seconds, of the whole process
	report   load.Report
}

// perCPU returns requests per CPU-second.
func (t trial) perCPU() float64 { return t.requests / t.cpu }

// micros returns CPU microseconds per request.
func (t trial) micros() float64 { return t.cpu * 1e6 / t.requests }

// ours runs meshtrial load with 16 connections unless args say otherwise.
func (b *bench) ours(ctx context.Context, url string, args ...string) (trial, error) {
	report, cpu, err := programs.Load(ctx, labs.Program, b.clientCPU, url, b.each, args...)
	return trial{requests: float64(report.Completed), cpu: cpu, report: report}, err
}

// counted runs another generator on the client's core, and finds its number of requests with re.
func (b *bench) counted(ctx context.Context, re *regexp.Regexp, program string, args ...string) (trial, error) {
	cmd := programs.Pinned(ctx, b.clientCPU, program, args...)
	out, err := cmd.CombinedOutput()
	m := re.FindSubmatch(out)
	if m == nil {
		return trial{}, errors.Join(fmt.Errorf("%s: no number of requests in %.300s", filepath.Base(program), out), err)
	}
	n, err := strconv.ParseFloat(string(m[1]), 64)
	return trial{requests: n, cpu: programs.CPU(cmd)}, err
}

var (
	wrkCount    = regexp.MustCompile(`(\d+) requests in`)
	fortioCount = regexp.MustCompile(`All done (\d+) calls`)
)

func (b *bench) wrkMax(ctx context.Context) (trial, error) {
	return b.counted(ctx, wrkCount, b.wrk, "-t1", "-c16", "-d"+strconv.Itoa(max(1, int(b.each.Seconds()))), b.url)
}

// fortioAt runs fortio at a rate, 0 for as fast as possible.
func (b *bench) fortioAt(ctx context.Context, rate int, more ...string) (trial, error) {
	args := append([]string{"load", "-c", "16", "-qps", strconv.Itoa(rate), "-t", b.each.String(), "-quiet"}, more...)
	return b.counted(ctx, fortioCount, b.fortio, append(args, b.url)...)
}
