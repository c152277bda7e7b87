package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/kinds"
	"github.com/meshtrial/meshtrial/record"
	"github.com/meshtrial/meshtrial/report"
)

type reportFlags struct {
	app.ReportOptions
	format string
	json   bool
	out    string
	textFlags
}

func newReportCommand(env *Env) *cobra.Command {
	var f reportFlags
	cmd := &cobra.Command{
		Use:   "report RUN",
		Short: "Write a report of a run, optionally rejudged",
		Long: "Write a report of the run in directory RUN, complete or not, from its records.\n\n" +
			"Assertions are CEL expressions over the findings, in addition to the study's own:\n" +
			"  --assert 'finding(\"latency_p50_overhead\", {\"sidecars\": \"both\"}).high < 1000'\n\n" +
			"--set sizing.pods=200 changes the mesh size in the section that compares data-plane\n" +
			"modes; --set money.core_month=25 --set money.gb_month=3 changes the prices.\n\n" +
			"--rejudge judges all trials again from their records, by the current rules; --limit sets\n" +
			"a bound of those rules, as in --limit schedule-lag=50%; an unknown name prints the list.\n\n" +
			"Exit codes: 0 report written, 3 an assertion failed or a verdict is not the expected\n" +
			"one, 4 no answer: no valid trial, too few in each comparison, or an inconclusive\n" +
			"verdict.",
		Example: "  meshtrial report runs/quick-...\n" +
			"  meshtrial report runs/quick-... --format html --out report.html\n" +
			"  meshtrial report runs/quick-... --rejudge --limit schedule-lag=50%",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.Dir = args[0]
			return runReport(cmd.Context(), env, f)
		},
	}
	flags := cmd.Flags()
	addChoice(flags, &f.format, "format", strings.Join(report.Formats(), ", "), report.Formats()...)
	flags.BoolVar(&f.json, "json", false, "short for --format json")
	flags.StringVar(&f.out, "out", "", "`FILE` to write instead of standard output")
	flags.StringArrayVar(&f.Assert, "assert", nil, "CEL `EXPRESSION` that must hold; may be repeated")
	flags.StringArrayVar(&f.Sets, "set", nil, "override the mesh to size or the prices, `FIELD=VALUE` under sizing or money; may be repeated")
	flags.BoolVar(&f.Rejudge, "rejudge", false, "judge the trials again from their records, by the current rules")
	flags.StringArrayVar(&f.Limits, "limit", nil, "with --rejudge: judge by this bound, `NAME=VALUE`; may be repeated (an unknown name prints the list)")
	f.textFlags.register(flags)
	cmd.MarkFlagsMutuallyExclusive("json", "format")
	return cmd
}

func runReport(ctx context.Context, env *Env, f reportFlags) error {
	if f.json {
		f.format = "json"
	}
	out := env.Stdout
	if f.out != "" {
		out = nil // a file is not a terminal
	}
	if f.format == "html" && f.out == "" && terminalWidth(env.Stdout) > 0 {
		return errs.WithHint(errs.Usage("refusing to write HTML to a terminal"), "write it to a file: --out report.html")
	}
	f.Warn = env.warn
	findings, err := app.Report(ctx, f.ReportOptions)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := kinds.Reports().Render(&b, findings, f.format, f.on(out)); err != nil {
		return err
	}
	if f.out == "" {
		_, err = env.Stdout.Write(b.Bytes())
	} else {
		err = writeWhole(f.out, b.Bytes())
	}
	if err != nil {
		return err
	}
	return app.Judgement(findings)
}

// loadRun reads a run directory and warns about damage in it.
func loadRun(ctx context.Context, env *Env, dir string) (record.Run, error) {
	return app.LoadRun(ctx, dir, env.warn)
}

// warn prints a warning about the input.
func (env *Env) warn(text string) { fmt.Fprintf(env.Stderr, "meshtrial: %s\n", text) }

// show prints a document as JSON, or as text.
func (env *Env) show(asJSON bool, document any, text func(io.Writer) error) error {
	if asJSON {
		return writeJSON(env.Stdout, document)
	}
	return text(env.Stdout)
}

// print prints a document as JSON, or its text.
func (env *Env) print(asJSON bool, document any, text string) error {
	return env.show(asJSON, document, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// writeWhole writes a file completely or not at all. It writes directly to a device or pipe, such as /dev/stdout, and
// through a link whose target does not exist yet. Links are kept.
func writeWhole(path string, data []byte) (err error) {
	defer func() {
		if err != nil && !errors.Is(err, syscall.ENOSPC) && !unread(err) {
			err = errs.WithHint(errs.WithCode(err, errs.CodeUsage), "--out takes a file in an existing folder that you can write to")
		}
		if err != nil {
			err = fmt.Errorf("cannot write %s: %w", path, err)
		}
	}()
	mode := os.FileMode(0o644)
	info, err := os.Stat(path)
	_, notLink := os.Readlink(path)
	switch {
	case err == nil && info.IsDir():
		return errors.New("it is a folder")
	case err == nil && !info.Mode().IsRegular(), errors.Is(err, fs.ErrNotExist) && notLink == nil:
		return os.WriteFile(path, data, mode)
	case err == nil:
		mode = info.Mode().Perm()
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".meshtrial-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // unless it was renamed
	_, err = file.Write(data)
	if err = errors.Join(err, file.Chmod(mode), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
