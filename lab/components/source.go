package components

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
)

const sourceModule = "github.com/meshtrial/meshtrial/lab/components/src"

// findSource returns the folder of the nested module: the one asked for, or
// $MESHTRIAL_SOURCE, or the one beside the program or a parent of it, or in
// the working directory or above. One that others may write to is refused.
func findSource(option string) (string, error) {
	if option != "" {
		return checkSource(option, "the source folder given")
	}
	if env := os.Getenv("MESHTRIAL_SOURCE"); env != "" {
		return checkSource(env, "MESHTRIAL_SOURCE")
	}
	var from []string
	if program, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(program); err == nil {
			program = real
		}
		from = append(from, filepath.Dir(program))
	}
	if dir, err := os.Getwd(); err == nil {
		from = append(from, dir)
	}
	for _, dir := range from {
		for {
			if candidate := filepath.Join(dir, "lab", "components", "src"); isSource(candidate) {
				return trustedSource(candidate, false)
			}
			parent := filepath.Dir(dir)
			if parent == dir {
				break
			}
			dir = parent
		}
	}
	return "", errs.WithHint(
		fmt.Errorf("lab/components/src, which the lab's programs are built from, was not found at or above %s", strings.Join(from, " or ")),
		"run meshtrial in its repository, or set MESHTRIAL_SOURCE to the repository's lab/components/src")
}

func checkSource(dir, what string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for _, d := range []string{dir, filepath.Join(dir, "lab", "components", "src")} {
		if isSource(d) {
			return trustedSource(d, true)
		}
	}
	return "", errs.WithHint(errs.Usage("%s, %s, holds no go.mod of %s", what, dir, sourceModule),
		"give it the path of lab/components/src in a copy of meshtrial's repository")
}

func isSource(dir string) bool {
	f, err := os.Open(filepath.Join(dir, "go.mod"))
	if err != nil {
		return false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if lines.Text() == "module "+sourceModule {
			return true
		}
	}
	return false
}
