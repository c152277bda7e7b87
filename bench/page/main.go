// Command page measures what the live page costs the machine that it is on, with two readers:
//
//	own     `meshtrial run --page` beside the same run without a page: its process's CPU time,
//	        over all and in windows, and what is sent in windows
//	others  `meshtrial page` while another process carries a run out
//	idle    `meshtrial page` of a folder in which nothing changes
//
// The run is a synthetic one: the events and the trials of `meshtrial run quick` at its pace,
// with the trials of a recorded run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/bench/internal/table"
	"github.com/meshtrial/meshtrial/internal/wake"
	"github.com/meshtrial/meshtrial/testing/runtest"
)

const (
	// most is the share of a core, in percent, that a page may take.
	most = 1
	// mostInWindows is what two readings of nothing differ by.
	mostInWindows = 0.05
	idleRuns      = 100
	idleFor       = 30 * time.Second
)

func main() {
	var b bench
	table.Program{
		Name:  "page",
		Roles: map[string]table.Role{roleRun: serveRun, rolePages: servePages},
		Flags: func(f *flag.FlagSet) { f.IntVar(&b.trials, "trials", 40, "trials of a run, of some 2.3 s each") },
		Setup: func(context.Context) (func() error, error) {
			if b.trials < 1 {
				return nil, errors.New("-trials: at least 1")
			}
			var err error
			b.dir, err = os.MkdirTemp("", "meshtrial-bench-")
			return func() error { return os.RemoveAll(b.dir) }, err
		},
		Title: func() string { return fmt.Sprintf("the live page, %d trials, two readers", b.trials) },
		Parts: []table.Part{{Name: "own", Run: b.own}, {Name: "others", Run: b.others}, {Name: "idle", Run: b.idle}},
	}.Main()
}

type bench struct {
	dir    string // for runs; removed at the end
	trials int
}

// own compares a run that has a page with one that has none.
func (b *bench) own(ctx context.Context) ([]table.Row, error) {
	var spent [2]spending
	for i, page := range []bool{false, true} {
		p, err := start(ctx, roleRun, order{Dir: filepath.Join(b.dir, fmt.Sprintf("own-%v", page)), Trials: b.trials, Page: page})
		if err != nil {
			return nil, err
		}
		if page {
			err = p.read(ctx, "", "")
		}
		if err == nil {
			err = p.result(&spent[i])
		}
		if err := errors.Join(err, p.close()); err != nil {
			return nil, err
		}
	}
	without, with := spent[0], spent[1]
	return []table.Row{
		table.Of("run without a page: CPU", "% of a core", without.All.share()),
		table.Of("run with a page: CPU", "% of a core", with.All.share()),
		table.Of("its page", "% of a core", with.All.share()-without.All.share()).AtMost(most),
		table.Of("run without a page: CPU in windows", "% of a core", without.Windows.share()),
		table.Of("run with a page: CPU in windows", "% of a core", with.Windows.share()),
		table.Of("its page in windows", "% of a core", with.Windows.share()-without.Windows.share()).AtMost(mostInWindows),
		table.Of("sent to readers in windows", "writes", float64(with.Writes)).AtMost(0),
	}, nil
}

// others measures a page of a run that this process carries out.
func (b *bench) others(ctx context.Context) (rows []table.Row, err error) {
	folder := filepath.Join(b.dir, "others")
	path := filepath.Join(folder, "run")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	w, err := runtest.Repeat(recorded, path, []byte(studyText), nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	p, err := start(ctx, rolePages, order{Dir: folder})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.read(ctx, "", "first"); err != nil {
		return nil, err
	}
	var all, windows spent
	all.begin(p.cpu)
	for range b.trials {
		if err := wake.Pause(ctx, warming); err != nil {
			return nil, err
		}
		windows.begin(p.cpu)
		if err := wake.Pause(ctx, window); err != nil {
			return nil, err
		}
		windows.end(p.cpu)
		if err := wake.Pause(ctx, collecting); err != nil {
			return nil, err
		}
		if _, err := w.Next(); err != nil {
			return nil, err
		}
	}
	all.end(p.cpu)
	return []table.Row{
		table.Of("page of another process's run: CPU", "% of a core", all.share()).AtMost(most),
		table.Of("page of another process's run: CPU in windows", "% of a core", windows.share()).AtMost(most),
	}, nil
}

// idle measures a page of a folder in which nothing changes.
func (b *bench) idle(ctx context.Context) (rows []table.Row, err error) {
	folder := filepath.Join(b.dir, "idle")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	for i := range idleRuns {
		w, err := runtest.Repeat(recorded, filepath.Join(folder, fmt.Sprintf("run-%d", i)), []byte(studyText), nil)
		if err != nil {
			return nil, err
		}
		_, err = w.Next()
		if err := errors.Join(err, w.Close()); err != nil {
			return nil, err
		}
	}
	p, err := start(ctx, rolePages, order{Dir: folder})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.read(ctx, "", "first"); err != nil {
		return nil, err
	}
	var all spent
	all.begin(p.cpu)
	if err := wake.Pause(ctx, idleFor); err != nil {
		return nil, err
	}
	all.end(p.cpu)
	return []table.Row{table.Of(fmt.Sprintf("page of %d runs that do not change: CPU", idleRuns), "% of a core", all.share()).AtMost(most)}, nil
}

// spent sums CPU time and time over intervals.
type spent struct {
	CPU, Wall time.Duration
	cpuFrom   time.Duration
	from      time.Time
}

func (s *spent) begin(cpu func() time.Duration) { s.from, s.cpuFrom = time.Now(), cpu() }

func (s *spent) end(cpu func() time.Duration) {
	s.CPU += cpu() - s.cpuFrom
	s.Wall += time.Since(s.from)
}

// share is in percent of a core.
func (s *spent) share() float64 { return 100 * s.CPU.Seconds() / s.Wall.Seconds() }

// cpuOf is the CPU time of a process, to the nanosecond: of this one, for 0.
func cpuOf(pid int) time.Duration {
	clock := int32(unix.CLOCK_PROCESS_CPUTIME_ID)
	if pid != 0 {
		clock = ^int32(pid)<<3 | 2 // CPUCLOCK_SCHED, as clock_getcpuclockid(3) does
	}
	var at unix.Timespec
	if err := unix.ClockGettime(clock, &at); err != nil {
		return 0
	}
	return time.Duration(at.Nano())
}
