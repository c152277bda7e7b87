package components

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/trusted"
)

// CacheDir is the folder that holds everything made: the one given, or
// $MESHTRIAL_CACHE, or meshtrial in the user's cache folder; without links.
// What lies there is run: a folder that others may write to is refused.
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

// trustedSource refuses a source folder of which others may write anything:
// what it holds is compiled and run. One that the user named may be of
// whoever owns it.
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
