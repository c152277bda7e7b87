package cli

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/studies"
	"github.com/meshtrial/meshtrial/ui/live"
)

func newPageCommand(env *Env) *cobra.Command {
	address := ""
	cmd := &cobra.Command{
		Use:   "page [RUNS...]",
		Short: "Serve a web page that shows runs and starts new ones",
		Long: "Serve a web page on this machine about the runs in RUNS, each a run directory or a folder\n" +
			"of runs (default: the folder runs). It lists them, shows the report of each as it grows,\n" +
			"compares any two, and follows findings over the runs of a study. Studies in the local lab\n" +
			"can be started, stopped and resumed there. The address is printed to standard error and\n" +
			"grants access to anyone who has it. Ctrl-C stops the page and cleanly stops a run it\n" +
			"started.\n\n" +
			"A run of another process is read again as it grows, on this machine's CPUs: `meshtrial run\n" +
			"--page` waits for the end of the window.",
		Example: "  meshtrial page\n" +
			"  meshtrial page runs/quick-...",
		RunE: func(cmd *cobra.Command, args []string) error { return servePage(cmd.Context(), env, address, args) },
	}
	cmd.Flags().StringVar(&address, "listen", anyPort, "loopback `ADDRESS` to listen on")
	return cmd
}

// anyPort is any free port of the loopback.
const anyPort = "127.0.0.1:0"

// pollRuns is how often a page looks for changes by other processes.
const pollRuns = 2 * time.Second

func servePage(ctx context.Context, env *Env, address string, dirs []string) error {
	if len(dirs) == 0 {
		dirs = []string{app.RunsFolder}
	}
	pages, err := app.NewPages(dirs)
	if err != nil {
		return err
	}
	p := newProgress(env.Stderr)
	defer p.Clear()
	launch := app.Launch{Studies: startable, Study: func(ctx context.Context, name string) (*study.Study, []byte, error) {
		return loadStudy(ctx, env, name, nil)
	},
		Options: app.RunOptions{Where: app.Where{Lab: lab.KindLocal}, Observe: record.ObservedCgroup, Progress: p,
			Confirm: func(context.Context, string) error { return errors.New("a page cannot ask for confirmation") },
			Present: func(app.Analyzed) error { return nil }}}
	return serving(ctx, p, pages, address, pollRuns, func(ctx context.Context) error {
		pages.Work(ctx, launch)
		return nil
	})
}

// startable are the shipped studies, the one to begin with first, and those in the working folder.
func startable() []string {
	files, _ := filepath.Glob("*.yaml") // the pattern is a good one
	const first = "quick"
	others := slices.DeleteFunc(studies.Names(), func(name string) bool { return name == first })
	return slices.Concat([]string{first}, others, files)
}

// runWithPage runs a study and serves a page about it until it has ended.
func runWithPage(ctx context.Context, p *progress, o app.RunOptions) error {
	pages, _ := app.NewPages(nil)
	return serving(ctx, p, pages, anyPort, 0, func(ctx context.Context) error {
		return pages.Follow(ctx, &o, func(ctx context.Context, o *app.RunOptions) error { return app.Run(ctx, *o) })
	})
}

// lingerFor is the time that open pages get to load their last document.
const lingerFor = 3 * time.Second

// settleFor is how long a window waits for a reader that does not take its event.
const settleFor = 50 * time.Millisecond

// serving serves pages while work goes on.
func serving(ctx context.Context, p *progress, pages *app.Pages, address string, poll time.Duration, work func(context.Context) error) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return errs.WithCode(err, errs.CodeUsage)
	}
	server, entrance := live.New(pages, poll)
	pages.Settle = func() { server.Settle(settleFor) }
	if err := server.Check(l); err != nil {
		return errors.Join(err, l.Close())
	}
	// The server outlives ctx, so that pages show how the work ends.
	alive, stop := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- server.Serve(alive, l) }()
	p.Note("page: http://%s%s", l.Addr(), entrance)
	err = work(ctx)
	pages.End()
	server.Linger(lingerFor)
	stop()
	return errors.Join(err, <-served)
}
