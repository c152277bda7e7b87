package components

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/trusted"
)

const sourceModule = "github.com/meshtrial/meshtrial/lab/components/src"

// findSource returns the folder of the nested module: the given one, or
// $MESHTRIAL_SOURCE, or one at or above the program or the working directory. It
// refuses a folder that others may write to.
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

// CacheDir is the folder of the cache: the given one, or $MESHTRIAL_CACHE, or
// meshtrial in the user's cache folder; links are resolved. Its programs are run, so
// that a folder that others may write to is refused.
func CacheDir(given string) (string, error) {
	if given == "" {
		given = os.Getenv("MESHTRIAL_CACHE")
	}
	if given == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", errs.WithHint(fmt.Errorf("no folder for the cache of components: %w", err), "set MESHTRIAL_CACHE")
		}
		given = filepath.Join(user, "meshtrial")
	}
	dir, err := trusted.Folder(given)
	if err != nil {
		hint := errs.Hint(err)
		if hint == "" {
			hint = "set MESHTRIAL_CACHE"
		} else {
			hint += "; MESHTRIAL_CACHE names another folder"
		}
		return "", errs.WithHint(fmt.Errorf("cache of components: %w", err), "%s", hint)
	}
	return dir, nil
}

// trustedSource refuses a source folder that others may write to: it is compiled and
// run. If the user named the folder, its owner is trusted.
func trustedSource(dir string, named bool) (string, error) {
	owner, err := trusted.Owner(dir)
	if err != nil {
		return "", err
	}
	_, err = trusted.Tree(dir, owner)
	naming := !named && err == nil // would do
	if !named {
		_, err = trusted.Tree(dir)
	}
	if err != nil {
		hint := errs.Hint(err)
		if naming {
			hint += "; if you trust its owner, name it: MESHTRIAL_SOURCE=" + dir
		}
		return "", errs.WithHint(fmt.Errorf("source of the lab's programs: %w", err), "%s", hint)
	}
	return dir, nil
}
