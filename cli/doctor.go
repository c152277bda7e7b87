package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/meshtrial/meshtrial/analysis/words"
	"github.com/meshtrial/meshtrial/app"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/lab/doctor"
	"github.com/meshtrial/meshtrial/lab/local"
	"github.com/meshtrial/meshtrial/study"
	"github.com/spf13/cobra"
)

func newDoctorCommand(env *Env) *cobra.Command {
	var asJSON, measureOnly bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether this machine is fit to measure, and what is missing",
		Long: "Inspect the machine, and sample it for a second. Each line is ok, a warning (you can measure,\n" +
			"but read the results with care) or a failure (`meshtrial lab up` refuses this machine), with the\n" +
			"command that fixes it. The only side effect is that testing kernel modules loads them.\n\n" +
			"Exit codes: 0 no failure, 1 a failure.",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			lines, tools, err := doctor.Check(cmd.Context(), os.DirFS("/"), doctor.ThisHost{})
			if err != nil {
				return err
			}
			if !measureOnly {
				supplies, err := app.Supplies(cmd.Context(), []string{study.MeshIstio}, nil)
				if err != nil {
					return err
				}
				lines = append(lines, local.Requirements(cmd.Context(), local.Options{Supplies: supplies})...)
			}
			lines = append(lines, tools...)
			document := struct {
				Schema int           `json:"schema"`
				Worst  string        `json:"worst"`
				Lines  []doctor.Line `json:"lines"`
			}{1, doctor.Worst(lines), lines}
			err = env.print(asJSON, document, linesText(lines))
			if err == nil && document.Worst == doctor.Failure {
				return quiet(errs.CodeFailure)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the lines as JSON")
	cmd.Flags().BoolVar(&measureOnly, "no-lab", false, "skip checks that only a local lab needs")
	return cmd
}

// linesText is a table, with a remedy below each line that has one.
func linesText(lines []doctor.Line) string {
	width := 0
	count := map[string]int{}
	for _, line := range lines {
		width = max(width, len(line.Name))
		count[line.Status]++
	}
	var text strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&text, "%-8s %-*s  %s\n", line.Status, width, line.Name, line.Detail)
		if line.Status != doctor.OK && line.Mend != "" {
			fmt.Fprintf(&text, "%-8s %-*s  fix: %s\n", "", width, "", line.Mend)
		}
	}
	fmt.Fprintf(&text, "%d ok, %s, %s\n", count[doctor.OK], words.Plural(count[doctor.Warning], "warning"), words.Plural(count[doctor.Failure], "failure"))
	return text.String()
}
