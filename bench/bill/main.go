// Command bill checks the bill of a sidecar's parts against what is known: a
// planted filter that costs so many CPU microseconds per request, and one that
// costs nothing.
//
//	make build && go run ./bench/bill -n 10
//
// A round prices three parts by `meshtrial run`, in the lab that runs or in one of
// our own (which takes root): the planted filter, one that does nothing, and a
// Lua script that does nothing, which is what calling the planted one costs on
// top of what it burns. That call, some tens of microseconds, is in the planted
// filter's price and is not taken off: it has to be small beside what is burned,
// and so has what a difference of six blocks is uncertain by. In every round the
// planted filter must stand in the first place alone and be priced within 10%,
// and the one that does nothing must not have a price: of intervals that hold
// with 98%, one in sixty excludes zero by chance, so how many do is told, and one
// counts only if it is also more than identical cells differ by.
//
// What a round came to is a line in the log (-log), so that the bench can be
// ended at any time and goes on where it was; with -table it only prints what
// the log says. The exit code is 1 if a round misses.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/meshtrial/meshtrial/bench/internal/jsonl"
	"github.com/meshtrial/meshtrial/bench/internal/labs"
	"github.com/meshtrial/meshtrial/bench/internal/table"
	"github.com/meshtrial/meshtrial/record"
)

func main() { os.Exit(table.Main("bench bill", run)) }

// billStudy is what a round runs. Requests come evenly and far below what the
// machine can do, so that waiting adds nothing to the proxy's CPU; one worker
// thread serves all connections, so that it does not matter how the kernel
// spreads them; and many short trials are better than few long ones, since
// trials differ by more than their requests do.
const billStudy = `name: bench-bill
question: Is a filter of known cost priced at what it costs, and one that costs nothing at nothing?
settings: {sidecars: server, mtls: permissive, rate: %d, connections: 8, arrival: uniform, payload: 1KiB, telemetry: "off", concurrency: 1}
bill:
  parts:
    planted: {filters: planted-%d}
    nothing: {filters: planted-noop}
    call: {filters: lua-noop}
  together: [planted]
warmup: {min: 500ms, max: 1500ms}
window: %s
interval: 250ms
blocks: {min: %d, max: %d, limit: 30m}
stop: none
measures: [latency, cpu, memory]
`

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bill", flag.ContinueOnError)
	flags.SetOutput(stderr)
	rounds := flags.Int("n", 10, "how many rounds there are to be")
	us := flags.Int("planted", 1000, "CPU microseconds per request that the planted filter burns")
	rate := flags.Int("rate", 300, "requests per second")
	blocks := flags.Int("blocks", 6, "blocks of a round")
	window := flags.Duration("window", 2*time.Second, "window of a trial, in quarters of a second")
	limit := flags.Duration("limit", 0, "begin no round that would end later than this (default no limit)")
	log := flags.String("log", "runs/bill.jsonl", "file of lines, one a round; what it has is not run again")
	printOnly := flags.Bool("table", false, "run nothing, print what the log says")
	jsonFile := flags.String("json", "", "also write the table to this file, as JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	folder := filepath.Dir(*log)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	lines, err := jsonl.Read[line](*log)
	if err != nil {
		return err
	}
	var runErr error
	if !*printOnly && len(lines) < *rounds {
		text := fmt.Sprintf(billStudy, *rate, *us, *window, *blocks, *blocks)
		lines, runErr = repeat(ctx, stderr, folder, *log, text, *us, *rounds, *limit, lines)
	}
	err = errors.Join(runErr, printText(stdout, lines), table.WriteJSON(*jsonFile, struct {
		Schema int    `json:"schema"`
		Rounds []line `json:"rounds"`
	}{1, lines}))
	return errors.Join(err, judge(lines))
}

// repeat runs the rounds that the log lacks.
func repeat(ctx context.Context, stderr io.Writer, folder, log, text string, us, rounds int, limit time.Duration, lines []line) ([]line, error) {
	begin := time.Now()
	lab, err := labs.Take(ctx)
	if err != nil {
		return lines, err
	}
	defer func() {
		if err := lab.End(ctx); err != nil {
			fmt.Fprintln(stderr, err)
		}
	}()
	file := filepath.Join(folder, "bench-bill.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return lines, err
	}
	for len(lines) < rounds {
		if n := len(lines); limit > 0 && n > 0 {
			if wants := time.Duration(lines[n-1].Seconds * float64(time.Second)); time.Since(begin)+wants > limit {
				fmt.Fprintf(stderr, "round %d is not run: it wants about %v and the limit is %v\n", n+1, wants.Round(time.Second), limit)
				break
			}
		}
		l, err := one(ctx, stderr, folder, file, us, len(lines)+1, rounds)
		if err != nil {
			return lines, err
		}
		if err := jsonl.Append(log, l); err != nil {
			return lines, err
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// one runs a round. The error says that there is no point in going on.
func one(ctx context.Context, stderr io.Writer, folder, file string, us, round, rounds int) (line, error) {
	at := time.Now().UTC()
	out := filepath.Join(folder, fmt.Sprintf("bill-%d-%s", round, at.Format("150405")))
	fmt.Fprintf(stderr, "%s: round %d of %d\n", time.Now().Format("15:04:05"), round, rounds)
	var printed bytes.Buffer
	code, err := labs.Run(ctx, &printed, "run", file, "--json", "--out", out)
	if ctx.Err() != nil {
		return line{}, ctx.Err()
	}
	var findings record.Findings
	if json.Unmarshal(printed.Bytes(), &findings) != nil || len(findings.Bills) != 1 {
		return line{}, fmt.Errorf("round %d came to no bill (exit %d, %s): %w", round, code, out, err)
	}
	l := lineOf(findings, us)
	l.At, l.Seconds = at, time.Since(at).Seconds()
	if l.why() != "" {
		l.Run = out
		return l, nil
	}
	return l, os.RemoveAll(out)
}
