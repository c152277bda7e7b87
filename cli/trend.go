package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/analysis/comparison"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/kinds"
	"github.com/meshtrial/meshtrial/report"
)

type trendFlags struct {
	margin string
	across []string
	study  string
	all    bool
	printFlags
}

func newTrendCommand(env *Env) *cobra.Command {
	var f trendFlags
	cmd := &cobra.Command{
		Use:   "trend DIR",
		Short: "Follow findings over the runs in a folder: what changed, when, and by how much",
		Long: "Order the runs under DIR by time, and find where the level of a finding changes: between\n" +
			"which runs, by how much, and which versions changed there. Each run is one value. By\n" +
			"chance alone, at most 5% of trends show a change. If runs vary by 3% and about 20 precede\n" +
			"it, a 10% change is found about three runs later. With fewer runs, or more deciding\n" +
			"findings, more are needed; the output says how many.\n\n" +
			"Runs on different machines, of different versions or of different studies are not\n" +
			"joined without --across: `--across versions` follows a mesh over its releases.\n" +
			"--study selects one study. Unreadable runs are reported and skipped.\n\n" +
			"Exit codes: 0 no change for the worse remains at the end, 2 wrong usage or runs that\n" +
			"cannot be joined, 3 a change for the worse remains, with its entire interval beyond the\n" +
			"margin, 4 inconclusive: it may lie within the margin, a deciding finding has no value in\n" +
			fmt.Sprintf("the newest runs, or there are too few runs (fewer than %d, or too few to show any change).", comparison.MinTrend),
		Example: "  meshtrial trend runs --study quick\n" +
			"  meshtrial trend runs --study quick --across versions --all",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runTrend(cmd.Context(), env, f, args[0]) },
	}
	flags := cmd.Flags()
	addRunsFlags(cmd, &f.margin, &f.across, "change to ignore, as a share of the level before it")
	flags.StringVar(&f.study, "study", "", "only runs of the study with this name")
	flags.BoolVar(&f.all, "all", false, "show all findings, not only deciding ones and those that changed")
	f.printFlags.register(flags)
	return cmd
}

func runTrend(ctx context.Context, env *Env, f trendFlags, dir string) error {
	how, err := runsOptions(f.margin, f.across)
	if err != nil {
		return err
	}
	trend, err := app.Trend(ctx, app.TrendOptions{Dir: dir, Study: f.study, How: how, Warn: env.warn})
	if err != nil {
		return err
	}
	err = f.show(env, trend, func(w io.Writer, o report.Options) error { return kinds.Reports().RenderTrend(w, trend, f.all, o) })
	if err != nil {
		return err
	}
	return app.TrendJudgement(trend)
}
