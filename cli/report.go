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
	color  string
	width  int
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
	flags.StringVar(&f.format, "format", "text", strings.Join(report.Formats, ", "))
	flags.BoolVar(&f.json, "json", false, "short for --format json")
	flags.StringVar(&f.out, "out", "", "`FILE` to write instead of standard output")
	flags.StringArrayVar(&f.Assert, "assert", nil, "CEL `EXPRESSION` that must hold; may be repeated")
	flags.StringArrayVar(&f.Sets, "set", nil, "override the mesh to size or the prices, `FIELD=VALUE` under sizing or money; may be repeated")
	flags.BoolVar(&f.Rejudge, "rejudge", false, "judge the trials again from their records, by the current rules")
	flags.StringArrayVar(&f.Limits, "limit", nil, "with --rejudge: judge by this bound, `NAME=VALUE`; may be repeated (an unknown name prints the list)")
	addTextFlags(cmd, &f.color, &f.width)
	cmd.MarkFlagsMutuallyExclusive("json", "format")
	return cmd
}

// addTextFlags adds the flags that control how text is drawn.
func addTextFlags(cmd *cobra.Command, color *string, width *int) {
	cmd.Flags().StringVar(color, "color", "auto", "colour text: auto (on a terminal, unless NO_COLOR is set), always, never")
	cmd.Flags().IntVar(width, "width", 0, "maximum table width in columns (default: the terminal's, otherwise 100)")
}

// textOptions returns how to draw text on w.
func textOptions(w io.Writer, color string, width int) (report.Options, error) {
	terminal := terminalWidth(w)
	options := report.Options{Width: width}
	if width < 0 {
		return options, errs.Usage("invalid --width %d", width)
	}
	if width == 0 {
		options.Width = terminal
	}
	switch color {
	case "auto":
		options.Color = terminal > 0 && os.Getenv("NO_COLOR") == ""
	case "always":
		options.Color = true
	case "never":
	default:
		return options, errs.WithHint(errs.Usage("unknown --color %q", color), "must be auto, always or never")
	}
	return options, nil
}

func runReport(ctx context.Context, env *Env, f reportFlags) error {
	if f.json {
		f.format = "json"
	}
	if _, err := report.FormatOf(f.format); err != nil {
		return err
	}
	out := env.Stdout
	if f.out != "" {
		out = nil // a file is not a terminal
	}
	options, err := textOptions(out, f.color, f.width)
	if err != nil {
		return err
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
	if err := kinds.Reports().Render(&b, findings, f.format, options); err != nil {
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

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// writeWhole writes a file completely or not at all. It writes directly to a device or pipe, such
// as /dev/stdout. If path is a link, it creates or replaces the target and keeps the link.
func writeWhole(path string, data []byte) (err error) {
	mode := os.FileMode(0o644)
	switch info, statErr := os.Stat(path); {
	case errors.Is(statErr, fs.ErrNotExist):
		if target, linked := linkTarget(path); linked {
			return writeWhole(target, data)
		}
	case statErr != nil:
		return errs.WithCode(fmt.Errorf("cannot write %s: %w", path, statErr), errs.CodeUsage)
	case info.IsDir():
		return errs.WithHint(errs.Usage("cannot write %s: it is a folder", path), "--out takes the path of a file")
	case !info.Mode().IsRegular():
		return writeInto(path, data)
	default:
		mode = info.Mode().Perm()
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".meshtrial-*")
	if err != nil {
		if !errors.Is(err, syscall.ENOSPC) {
			err = errs.WithCode(err, errs.CodeUsage)
		}
		return errs.WithHint(fmt.Errorf("cannot write %s: %w", path, err), "--out takes a file in an existing folder that you can write to")
	}
	defer func() {
		if err != nil {
			os.Remove(file.Name())
		}
	}()
	_, err = file.Write(data)
	if err == nil {
		err = file.Chmod(mode)
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return nil
}

// linkTarget returns the target of a link. linked is false if path is not a link.
func linkTarget(path string) (target string, linked bool) {
	target, err := os.Readlink(path)
	if err != nil || filepath.IsAbs(target) {
		return target, err == nil
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	return filepath.Join(dir, target), err == nil
}

// writeInto writes to an existing terminal, pipe or device.
func writeInto(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return errs.WithCode(fmt.Errorf("cannot write %s: %w", path, err), errs.CodeUsage)
	}
	_, err = file.Write(data)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return nil
}
