// Command profile measures profiling against its targets, on this machine:
//
//	read      seconds and peak memory of a process that reads a perf script of
//	          1 GB, as from a loaded proxy with symbols, removes doubtful
//	          names, and sums up by cost centre
//	overhead  what perf at the default rate adds to the CPU of each request of
//	          a loaded Envoy, in pairs of windows with and without it
//
// The file is generated in the directory for temporary files, and removed
// afterwards. The part overhead needs perf, nginx and bin/meshtrial in the
// working directory; it may need root.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/meshtrial/meshtrial/bench/internal/table"
	"github.com/meshtrial/meshtrial/observe/profile"
	"github.com/meshtrial/meshtrial/observe/profile/perf"
)

// Targets.
const (
	memoryTarget = 300 // MB
	timeTarget   = 60  // seconds
)

// child is the argument with which the program starts itself as the reader.
const child = "read-standard-input"

func main() {
	var megabytes int64
	var o overheadOptions
	table.Program{
		Name:  "profiles",
		Roles: map[string]table.Role{child: read},
		Flags: func(f *flag.FlagSet) {
			f.Int64Var(&megabytes, "megabytes", 1000, "size of the perf script")
			f.IntVar(&o.pairs, "pairs", 20, "pairs of windows of the part overhead")
			f.DurationVar(&o.each, "each", 5*time.Second, "length of each of its windows")
			f.IntVar(&o.rate, "rate", 4000, "its requests per second")
			f.IntVar(&o.hz, "hz", perf.DefaultHz, "its samples per second of CPU time")
			f.StringVar(&o.graph, "graph", perf.GraphFP, "how it finds callers: fp, dwarf or none")
			f.IntVar(&o.serverCPU, "server-cpu", 0, "its core for Envoy")
			f.IntVar(&o.clientCPU, "client-cpu", 1, "its core for load and nginx")
		},
		Title: func() string { return "profiles" },
		Parts: []table.Part{
			{Name: "read", Run: func(ctx context.Context) ([]table.Row, error) { return measure(ctx, megabytes*1_000_000) }},
			{Name: "overhead", Run: func(ctx context.Context) ([]table.Row, error) { return overhead(ctx, o) }},
		},
	}.Main()
}

// result is the output of the reading process.
type result struct {
	Samples int     `json:"samples"`
	Total   int64   `json:"total"`
	Centres int     `json:"centres"`
	Seconds float64 `json:"s"`
	PeakMB  float64 `json:"peak_mb"`
}

// read reads a profile as `meshtrial profile FILE` does.
func read(_ context.Context, in io.Reader, out io.Writer) error {
	debug.SetMemoryLimit(profile.MemoryLimit)
	begin := time.Now()
	p, err := profile.Read(in)
	if err != nil {
		return err
	}
	p.Distrust(nil)
	costs := profile.Cost([]*profile.Profile{p}, nil)
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(result{p.Len(), p.Total(), len(costs.Centres),
		time.Since(begin).Seconds(), float64(usage.Maxrss) * 1024 / 1e6})
}

// measure has a child read a generated file.
func measure(ctx context.Context, size int64) ([]table.Row, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, child)
	cmd.Stderr = os.Stderr
	file, err := os.CreateTemp("", "meshtrial-bench-*.perf.txt")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	defer file.Close()
	samples, err := generate(file, size)
	if err != nil {
		return nil, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	cmd.Stdin = file
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	var r result
	if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
		return nil, err
	}
	if r.Samples != samples || r.Total != int64(samples)*period {
		return nil, fmt.Errorf("%d samples of %d were read", r.Samples, samples)
	}
	fmt.Fprintf(os.Stderr, "%d samples, %d cost centres\n", r.Samples, r.Centres)
	return []table.Row{
		table.Of(fmt.Sprintf("perf script of %d MB: time to read", size/1_000_000), "s", r.Seconds).AtMost(timeTarget),
		table.Of("its reader's memory at the peak", "MB", r.PeakMB).AtMost(memoryTarget),
	}, nil
}

// period is the weight of each sample, in nanoseconds.
const period = 10_101_010

// functions is the number of distinct functions in a profile of a large proxy.
const functions = 20_000

// generate writes a perf script of a given size: stacks of 5 to 45 frames, most
// of them repeated, with new ones until the end, as in real programs. The same
// size gives the same file.
func generate(w io.Writer, size int64) (samples int, err error) {
	r := rand.New(rand.NewPCG(1, 2))
	out := bufio.NewWriterSize(w, 1<<20)
	written := int64(0)
	print := func(format string, args ...any) {
		n, printErr := fmt.Fprintf(out, format, args...)
		written += int64(n)
		if err == nil {
			err = printErr
		}
	}
	var stack []int
	for written < size && err == nil {
		// A stack shares its outer part with the previous one.
		keep := r.IntN(len(stack) + 1)
		if r.IntN(10) > 0 {
			keep = max(0, len(stack)-r.IntN(4))
		}
		stack = stack[:min(keep, 40)]
		for depth := 5 + r.IntN(41); len(stack) < depth; {
			outer := 0
			if len(stack) > 0 {
				outer = stack[len(stack)-1]
			}
			// Each function calls the same few others, and rarely an additional
			// one.
			callee := (outer*31 + r.IntN(3)*7 + 1) % functions
			if r.IntN(400) == 0 {
				callee = r.IntN(functions)
			}
			stack = append(stack, callee)
		}
		print("wrk:worker_%d %7d/%-7d %6d.%06d: %10d cpu-clock:pppH: \n",
			samples%4, 4242, 4250+samples%4, 1000+samples/400, samples%400*2500, period)
		if samples%3 == 0 {
			print("\tffffffff81e2e5e4 tcp_sendmsg_locked+0x%x ([kernel.kallsyms])\n"+
				"\tffffffff821ecc51 do_syscall_64+0x71 ([kernel.kallsyms])\n", r.IntN(4000))
		}
		for _, f := range slices.Backward(stack) {
			print("\t    %12x Envoy::Extensions::HttpFilters::Filter%d::FilterImpl%d<std::__1::basic_string<char>>::"+
				"decodeHeaders(Envoy::Http::RequestHeaderMap&, bool)+0x%x (/usr/local/bin/envoy)\n",
				0x55a000000000+f*4096, f%30, f, r.IntN(2000))
		}
		print("\n")
		samples++
	}
	if err == nil {
		err = out.Flush()
	}
	return samples, err
}
