package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/run/store"
	"github.com/meshtrial/meshtrial/study"
	"github.com/meshtrial/meshtrial/study/studies"
)

// newStudyCommand returns the commands that work on study files without running anything.
func newStudyCommand(env *Env) *cobra.Command {
	return parentCommand("study", "List, check and explain study files without running them", "",
		newStudyListCommand(env), newStudyCheckCommand(env), newStudyPlanCommand(env), newStudyShowCommand(env), newStudySchemaCommand(env))
}

func newStudyListCommand(env *Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the shipped studies",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			type listed struct {
				Name     string     `json:"name"`
				Kind     study.Kind `json:"kind"`
				Title    string     `json:"title"`
				Question string     `json:"question"`
				Story    string     `json:"story,omitempty"`
			}
			var all []listed
			for _, name := range studies.Names() {
				s, _, err := loadStudy(cmd.Context(), env, name, nil)
				if err != nil {
					return err
				}
				all = append(all, listed{name, s.Kind, s.Title, s.Question, s.Story})
			}
			if asJSON {
				return writeJSON(env.Stdout, struct {
					Schema  int      `json:"schema"`
					Studies []listed `json:"studies"`
				}{1, all})
			}
			w := tabwriter.NewWriter(env.Stdout, 0, 0, 2, ' ', 0)
			for _, s := range all {
				fmt.Fprintf(w, "%s\t%s\t%s\n", s.Name, s.Kind, s.Title)
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newStudySchemaCommand(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of study files, for editors",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			data, err := study.Schema()
			if err != nil {
				return err
			}
			_, err = env.Stdout.Write(data)
			return err
		},
	}
}

func newStudyShowCommand(env *Env) *cobra.Command {
	var sets []string
	var source bool
	cmd := &cobra.Command{
		Use:     "show STUDY",
		Short:   "Print a study with all defaults filled in",
		Example: "  meshtrial study show quick --source > my-study.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if source && len(sets) > 0 {
				return errs.WithHint(errs.Usage("--source prints the original file, which --set does not change"), "omit one of them")
			}
			s, data, err := loadStudy(cmd.Context(), env, args[0], sets)
			if err != nil {
				return err
			}
			if !source {
				data = s.Marshal()
			}
			_, err = env.Stdout.Write(data)
			return err
		},
	}
	addSetFlag(cmd, &sets)
	cmd.Flags().BoolVar(&source, "source", false, "print the original file, as a template for your own")
	return cmd
}

func newStudyCheckCommand(env *Env) *cobra.Command {
	var sets []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check STUDY...",
		Short: "Check studies: shipped ones by name, files by path, or - for standard input",
		Example: "  meshtrial study check my-study.yaml\n" +
			"  meshtrial study check quick --set connections=[8,16]",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			type checked struct {
				File        string         `json:"file"`
				Study       string         `json:"study"`
				Cells       int            `json:"cells"`
				Trials      int            `json:"trials_per_block"`
				MinDuration float64        `json:"min_duration_s"`
				MaxDuration float64        `json:"max_duration_s"`
				Notes       []app.PlanNote `json:"notes"`
			}
			var all []checked
			for _, arg := range args {
				s, _, err := loadStudy(cmd.Context(), env, arg, sets)
				if err != nil {
					return err
				}
				p, err := app.CheckedPlan(s, s.Seed)
				if err != nil {
					return err
				}
				e := p.Estimate()
				notes := app.PlanNotes(p)
				for _, n := range notes {
					fmt.Fprintln(env.Stderr, n)
				}
				if asJSON {
					all = append(all, checked{arg, s.Name, len(p.Cells), e.Trials, e.Min.Seconds(), e.Max.Seconds(), notes})
					continue
				}
				if _, err := fmt.Fprintf(env.Stdout, "%s: ok: %s, %s per block, %s\n", arg,
					words.Plural(len(p.Cells), "cell"), words.Plural(e.Trials, "trial"), span(e)); err != nil {
					return err
				}
			}
			if asJSON {
				return writeJSON(env.Stdout, struct {
					Schema  int       `json:"schema"`
					Studies []checked `json:"studies"`
				}{1, all})
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON; an invalid study is still an error")
	addSetFlag(cmd, &sets)
	return cmd
}

func newStudyPlanCommand(env *Env) *cobra.Command {
	var sets []string
	var asJSON bool
	var source string
	cmd := &cobra.Command{
		Use:     "plan STUDY",
		Short:   "Print what a study will run: cells, trials per block, pods, time",
		Example: "  meshtrial study plan quick --set rate=2000",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, _, err := loadStudy(cmd.Context(), env, args[0], sets)
			if err == nil {
				s, err = app.Observable(s, source)
			}
			if err != nil {
				return err
			}
			p, err := app.CheckedPlan(s, s.Seed)
			if err != nil {
				return err
			}
			notes := append(app.PlanNotes(p), app.ObserveNotes(source)...)
			if asJSON {
				return writePlanJSON(env.Stdout, p, notes)
			}
			return writePlan(env.Stdout, p, notes)
		},
	}
	addSetFlag(cmd, &sets)
	addObserveFlag(cmd.Flags(), &source)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func addSetFlag(cmd *cobra.Command, sets *[]string) {
	cmd.Flags().StringArrayVar(sets, "set", nil,
		"override a part of the study, `PATH=VALUE`: window=1s, rate=2000 to fix a factor, connections=[8,16] to vary it; may be repeated")
}

// loadStudy reads a study by its shipped name, by path, or from standard input ("-"). It applies
// the overrides and reads the files that the study names. It also returns the unmodified contents
// of the study file.
func loadStudy(ctx context.Context, env *Env, arg string, sets []string) (*study.Study, []byte, error) {
	return loadStudyBy(ctx, env, arg, sets, study.Parse)
}

// loadStudyBy is [loadStudy] with another parser.
func loadStudyBy(ctx context.Context, env *Env, arg string, sets []string,
	parse func(data []byte, name string, sets []string) (*study.Study, error)) (*study.Study, []byte, error) {
	data, name, dir, err := readStudy(ctx, env, arg)
	if err != nil {
		return nil, nil, err
	}
	s, err := parse(data, name, sets)
	if err != nil {
		return nil, nil, err
	}
	s, err = s.WithFiles(func(file string) ([]byte, error) {
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		return readInput(ctx, file, study.MaxFile)
	})
	return s, data, err
}

// chooseStudy reads the study of the arguments, or the study of the run to resume.
func chooseStudy(ctx context.Context, env *Env, f runFlags, args []string) (*study.Study, []byte, error) {
	switch {
	case f.Resume == "":
		return loadStudy(ctx, env, args[0], f.sets)
	case len(args) == 1:
		// The store rejects a study that differs from the run's.
		return loadStudyBy(ctx, env, args[0], f.sets, study.ParseAgain)
	case len(f.sets) > 0:
		return nil, nil, errs.WithHint(errs.Usage("--set would change the study of the run to resume"), "omit it, or start a new run")
	}
	return app.ResumedStudy(f.Resume)
}

func readStudy(ctx context.Context, env *Env, arg string) (data []byte, name, dir string, err error) {
	if arg == "-" {
		data, err = io.ReadAll(io.LimitReader(untilDone{ctx, env.Stdin}, study.MaxFile+1))
		return data, "standard input", ".", err
	}
	if word, ok := strings.CutPrefix(arg, studies.Scenarios+"/"); ok && slices.Contains(studies.ScenarioNames(), word) {
		if data, err = studies.Read(word); err == nil {
			return data, word + ".yaml", ".", nil
		}
	}
	if !strings.ContainsAny(arg, "/.") {
		// A word without slashes and dots is a shipped study, or a file of that name.
		if data, err = studies.Read(arg); err == nil {
			return data, arg + ".yaml", ".", nil
		}
		if _, statErr := os.Stat(arg); statErr != nil {
			return nil, "", "", err
		}
	}
	data, err = readInput(ctx, arg, study.MaxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = errs.WithHint(errs.Usage("there is no study file %s", arg), "%s", studies.Hint(strings.TrimSuffix(filepath.Base(arg), ".yaml")))
	case err != nil:
		err = errs.WithHint(errs.WithCode(fmt.Errorf("study file: %w", err), errs.CodeUsage), "%s", insteadOf(arg))
	}
	return data, arg, filepath.Dir(arg), err
}

// insteadOf returns a hint on what to name instead of a path that is not a readable file. For a
// run directory it names the study inside.
func insteadOf(path string) string {
	of := filepath.Join(path, store.FileStudy)
	if info, err := os.Stat(of); err == nil && info.Mode().IsRegular() {
		return "the study in it is " + of
	}
	return studies.Takes
}

// span formats a time estimate.
func span(e study.Estimate) string {
	least, most := e.Min.Round(time.Second), e.Max.Round(time.Second)
	if least == most {
		return "about " + least.String()
	}
	return fmt.Sprintf("%s to %s", least, most)
}
