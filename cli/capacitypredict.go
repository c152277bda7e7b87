package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/advise/capacity/model"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/report"
)

type capacityPredictFlags struct {
	model, against    string
	report            string
	mesh              model.Mesh
	visible, slow     string
	mix, shares       []string
	after, max, bound time.Duration
	horizon, age      time.Duration
	debounceEndpoints bool
	published, limits bool
	seed              uint64
	draws             int
	json              bool
	color             string
	width             int
}

func newCapacityPredictCommand(env *Env) *cobra.Command {
	f := capacityPredictFlags{mesh: model.Default()}
	cmd := &cobra.Command{
		Use:   "predict --model FILE {--proxies N --services N --rate R | --against RUN | --published}",
		Short: "Predict convergence, pushes, CPU and memory of a mesh with a capacity model",
		Long: "Simulate how changes travel from istiod to the proxies of a mesh, and predict with 90%\n" +
			"intervals how long they take, what is pushed and sent, how much CPU and memory that\n" +
			"takes, what losing a replica costs, and how far rate and size can grow before changes\n" +
			"are late. It says how far the mesh lies beyond what was measured, and which parameters\n" +
			"are assumed.\n\n" +
			"--against RUN predicts the cells of a run that the model was not fitted to. --published\n" +
			"compares published control plane sizes with what the model says of them.\n\n" +
			"Exit codes: 0 success, 2 wrong usage or input, 3 istiod would not keep up with this mesh, 4 no\n" +
			"trial of the run can be predicted.",
		Example: "  meshtrial capacity predict --model model.json --proxies 5000 --services 2000 --rate 1 --replicas 3 --cores 4\n" +
			"  meshtrial capacity predict --model model.json --against runs/capacity-holdout-... --report held-out.html",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return computing(cmd.Context(), func() error {
				return runCapacityPredict(cmd.Context(), env, f, cmd.Flags().Changed("bound"))
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.model, "model", "", "the model, a `FILE` that capacity fit wrote")
	flags.StringVar(&f.against, "against", "", "predict the cells of this `RUN`")
	flags.StringVar(&f.report, "report", "", "with --against or --published: also write plots to this HTML `FILE`")
	flags.BoolVar(&f.published, "published", false, "compare published sizes with the model's")
	flags.IntVar(&f.mesh.Proxies, "proxies", 0, "sidecars connected to istiod")
	flags.IntVar(&f.mesh.Services, "services", 0, "Services in the mesh")
	flags.StringVar(&f.visible, "visible", "100%", "share of the services that a sidecar sees, below 100% with Sidecars")
	flags.IntVar(&f.mesh.Namespaces, "namespaces", f.mesh.Namespaces, "namespaces of the sidecars: istiod caches routes for each by itself")
	flags.Float64Var(&f.mesh.Rate, "rate", 0, "changes per second")
	flags.StringVar(&f.mesh.Arrival, "arrival", f.mesh.Arrival, "arrival process of the changes: poisson, uniform or burst")
	flags.IntVar(&f.mesh.Burst, "burst", 0, "with --arrival burst: changes at once")
	flags.StringSliceVar(&f.mix, "mix", nil, "what changes, as `KIND=WEIGHT,...`: "+strings.Join(model.KindNames(), ", ")+" (default: as in the model's runs)")
	flags.IntVar(&f.mesh.Replicas, "replicas", f.mesh.Replicas, "replicas of istiod")
	flags.StringSliceVar(&f.shares, "shares", nil, "how the connections are shared among the replicas, such as 3,1 (default: evenly)")
	flags.Float64Var(&f.mesh.Cores, "cores", f.mesh.Cores, "CPUs per replica")
	flags.IntVar(&f.mesh.Throttle, "throttle", 0, "proxies that istiod pushes to at a time (PILOT_PUSH_THROTTLE); 0: as istiod chooses by its CPUs")
	flags.Float64Var(&f.mesh.ConnectLimit, "connect-limit", 0, "new streams and requests that istiod accepts per second (PILOT_MAX_REQUESTS_PER_SECOND); 0: as istiod chooses")
	flags.DurationVar(&f.after, "debounce-after", 100*time.Millisecond, "how long istiod waits for more changes after one (PILOT_DEBOUNCE_AFTER)")
	flags.DurationVar(&f.max, "debounce-max", 10*time.Second, "how long istiod waits at most while more changes come (PILOT_DEBOUNCE_MAX)")
	flags.DurationVar(&f.age, "connection-age", 30*time.Minute, "age at which istiod closes a connection (keepaliveMaxServerConnectionAge); 0: never")
	flags.BoolVar(&f.debounceEndpoints, "eds-debounce", true, "debounce changes of endpoints too (PILOT_ENABLE_EDS_DEBOUNCE)")
	flags.StringVar(&f.slow, "slow", "0%", "share of the proxies that read slowly")
	flags.Float64Var(&f.mesh.SlowRead, "slow-read", 0, "with --slow: bytes per second that a slow proxy reads")
	flags.BoolVar(&f.mesh.Beside, "beside", false, "simulated proxies run beside istiod and take CPU from it, as they did in the model's runs")
	flags.DurationVar(&f.bound, "bound", 5*time.Second, "p99 convergence beyond which changes count as late")
	flags.BoolVar(&f.limits, "limits", true, "also look for the rate and the size at which changes are late, and for the cost of losing a replica")
	flags.DurationVar(&f.horizon, "horizon", 0, "how long changes keep coming (default: until there were some hundred)")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of changes and draws")
	flags.IntVar(&f.draws, "draws", 60, "simulations for the intervals")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	addTextFlags(cmd, &f.color, &f.width)
	return cmd
}

func runCapacityPredict(ctx context.Context, env *Env, f capacityPredictFlags, bound bool) error {
	options, err := textOptions(env.Stdout, f.color, f.width)
	if err != nil {
		return err
	}
	if f.draws < 5 || f.draws > 2000 {
		return errs.Usage("--draws %d: must be 5 to 2000", f.draws)
	}
	if f.against != "" && f.published {
		return errs.Usage("--against and --published are mutually exclusive")
	}
	if bound && f.bound <= 0 {
		return errs.Usage("--bound %v: must be more than 0", f.bound)
	}
	m, err := readModel(ctx, f.model)
	if err != nil {
		return err
	}
	o := model.Options{Seed: f.seed, Draws: f.draws}
	switch {
	case f.against != "":
		return f.showAgainst(ctx, env, m, o, options)
	case f.published:
		return f.showPublished(env, m, options)
	case f.report != "":
		return errs.WithHint(errs.Usage("--report has nothing to plot"), "give --against RUN or --published too")
	}
	p, err := f.predict(m, o)
	if err != nil {
		return err
	}
	if f.json {
		err = writeJSON(env.Stdout, p)
	} else {
		err = report.RenderPrediction(env.Stdout, p, options)
	}
	if err == nil && !p.KeepsUp {
		return quiet(errs.CodeAssertion)
	}
	return err
}

func (f capacityPredictFlags) showAgainst(ctx context.Context, env *Env, m *model.Model, o model.Options, options report.Options) error {
	cells, left, err := againstRun(ctx, env, m, f.against, o)
	if err != nil {
		return err
	}
	if f.report != "" {
		if err := writeCapacityPage(f.report, report.CapacityPage{Title: "A capacity model against a run", HeldOut: cells, Words: left}); err != nil {
			return err
		}
	}
	if f.json {
		return writeJSON(env.Stdout, struct {
			Schema int          `json:"schema"`
			Cells  []model.Cell `json:"cells"`
			Left   []string     `json:"left_out,omitempty"`
		}{model.Schema, cells, left})
	}
	return report.RenderAgainst(env.Stdout, cells, left, options)
}

func (f capacityPredictFlags) showPublished(env *Env, m *model.Model, options report.Options) error {
	rows, err := m.ComparePublished(model.Options{Seed: f.seed})
	if err != nil {
		return errs.WithCode(err, errs.CodeUsage)
	}
	slope := m.SlopeWords()
	if f.report != "" {
		if err := writeCapacityPage(f.report, report.CapacityPage{Title: "A capacity model against published sizes", Published: rows,
			Words: append(report.PublishedWords(rows), slope...)}); err != nil {
			return err
		}
	}
	if f.json {
		return writeJSON(env.Stdout, struct {
			Schema    int               `json:"schema"`
			Published []model.Published `json:"published"`
			Slope     []string          `json:"slope"`
		}{model.Schema, rows, slope})
	}
	return report.RenderCapacityPublished(env.Stdout, rows, slope, options)
}

// predict makes the whole prediction of the mesh that flags describe.
func (f capacityPredictFlags) predict(m *model.Model, o model.Options) (*model.Prediction, error) {
	mesh, err := f.read(m)
	if err != nil {
		return nil, err
	}
	if err := mesh.Check(); err != nil {
		return nil, errs.WithHint(errs.WithCode(err, errs.CodeUsage), "meshtrial capacity predict --help explains the flags")
	}
	p, err := m.Predict(mesh, o)
	if err != nil || !f.limits {
		return p, err
	}
	if p.Loss, err = m.Loss(mesh, o); err != nil {
		return nil, err
	}
	p.Limits, err = m.Limits(mesh, f.bound.Seconds(), o)
	return p, err
}

// read is the mesh that flags describe.
func (f capacityPredictFlags) read(m *model.Model) (model.Mesh, error) {
	mesh := f.mesh
	for _, missing := range []struct {
		flag string
		ok   bool
	}{{"--proxies", mesh.Proxies > 0}, {"--services", mesh.Services > 0}, {"--rate", mesh.Rate > 0}} {
		if !missing.ok {
			return mesh, errs.WithHint(errs.Usage("%s is missing", missing.flag), "nobody can guess how large the mesh is and how often it changes: give --proxies, --services and --rate")
		}
	}
	var err error
	if mesh.Visible, err = parseShare("--visible", f.visible); err != nil {
		return mesh, err
	}
	if mesh.Slow, err = parseShare("--slow", f.slow); err != nil {
		return mesh, err
	}
	mesh.DebounceAfter, mesh.DebounceMax, mesh.DirectEndpoints = f.after.Seconds(), f.max.Seconds(), !f.debounceEndpoints
	mesh.Horizon, mesh.ConnectionAge = f.horizon.Seconds(), f.age.Seconds()
	mesh.Mix = m.Mix
	if len(f.mix) > 0 {
		mesh.Mix = map[string]float64{}
	}
	for _, text := range f.mix {
		name, weight, ok := strings.Cut(text, "=")
		v, err := strconv.ParseFloat(weight, 64)
		if !ok || err != nil {
			return mesh, errs.WithHint(errs.Usage("--mix %q is not KIND=WEIGHT", text), "as --mix endpoints=9,configuration=1")
		}
		if _, ok := model.KindOf(name); !ok {
			return mesh, errs.WithHint(errs.Usage("--mix: %q is no kind of change", name), "%s", errs.Suggest(name, model.KindNames()))
		}
		mesh.Mix[name] += v
	}
	for _, text := range f.shares {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return mesh, errs.Usage("--shares: %q is no number", text)
		}
		mesh.Shares = append(mesh.Shares, v)
	}
	return mesh, nil
}

// parseShare reads a share: "5%" or "0.05".
func parseShare(flag, text string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0) || v > 1 {
		return 0, errs.WithHint(errs.Usage("%s %q: must be a share from 0 to 100%%", flag, text), "as %s 10%%", flag)
	}
	return v, nil
}
