// Package push pushes an image to a registry, or writes it to an archive that
// nodes can import.
package push

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// Name parses REGISTRY/NAME[:TAG]. The default tag is the version, with characters
// replaced that are invalid in a tag.
func Name(to, version string) (name.Tag, error) {
	const form = "--push takes REGISTRY/NAME or REGISTRY/NAME:TAG, such as registry.example/tools/meshtrial"
	switch {
	case strings.Contains(to, "://"):
		return name.Tag{}, errs.WithHint(errs.Usage("%s is an address, not the name of an image", to), form)
	case strings.Contains(to, "@"):
		return name.Tag{}, errs.WithHint(errs.Usage("%s has a digest, which is known only once the image is built", to), form)
	}
	repository, tag := to, tagOf(version)
	if at := strings.LastIndex(to, ":"); at > strings.LastIndex(to, "/") {
		repository, tag = to[:at], to[at+1:]
	}
	if !strings.Contains(repository, "/") {
		return name.Tag{}, errs.WithHint(errs.Usage("%s lacks a registry or a name in it", to), form)
	}
	named, err := name.NewTag(repository+":"+tag, name.StrictValidation)
	if err != nil {
		return name.Tag{}, errs.WithHint(errs.Usage("%s is not a valid image name: %v", to, err), form)
	}
	return named, nil
}

// tagOf turns a version into a tag.
func tagOf(version string) string {
	tag := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '.', r == '-':
			return r
		}
		return '-'
	}, version)
	if tag = strings.TrimLeft(tag, ".-"); tag == "" {
		return "latest"
	}
	return tag[:min(len(tag), 128)]
}

// Image pushes an image with the credentials of the user's other tools (docker
// login, podman login, credential helpers). It returns the reference
// NAME@sha256:...
//
// The registry must use HTTPS, unless it is on this machine.
func Image(ctx context.Context, image v1.Image, to name.Tag) (ref string, err error) {
	digest, err := image.Digest()
	if err != nil {
		return "", err
	}
	wire := &guarded{base: remote.DefaultTransport}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithTransport(wire)}
	if err := remote.Write(to, image, options...); err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "", explain(fmt.Errorf("pushing %s: %w", to.Name(), err), to, wire.refused.Load())
	}
	return repository(to) + "@" + digest.String(), nil
}

// repository returns the image's name without tag in Kubernetes' notation. The
// library writes Docker Hub differently.
func repository(to name.Tag) string {
	full := to.Context().Name()
	if rest, ok := strings.CutPrefix(full, name.DefaultRegistry+"/"); ok {
		return "docker.io/" + rest
	}
	return full
}

// explain adds a hint to the error of a push.
func explain(err error, to name.Tag, plain bool) error {
	registry := to.RegistryStr()
	var answer *transport.Error
	switch {
	case errors.As(err, &answer):
	case plain:
		return errs.WithHint(errs.WithCode(err, errs.CodeUsage),
			"use a certificate that this machine trusts for the registry, or load the archive of `meshtrial lab components images --roles` on the nodes")
	default:
		return errs.WithHint(err, "the registry %s must be reachable from here", registry)
	}
	switch answer.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return errs.WithHint(err, "`docker login %s` or `podman login %s` as a user who may push to %s; credentials are read from their files (~/.docker/config.json, $REGISTRY_AUTH_FILE)",
			registry, registry, to.RepositoryStr())
	case http.StatusNotFound:
		return errs.WithHint(err, "some registries require that a repository exists before a push: create %s there", to.RepositoryStr())
	}
	return err
}

// guarded refuses to send credentials and images unencrypted to another machine.
// The library would do so for a private address or a name ending in .local.
type guarded struct {
	base    http.RoundTripper
	refused atomic.Bool
}

func (g *guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !loopback(r.URL.Hostname()) {
		g.refused.Store(true)
		return nil, fmt.Errorf("%s speaks plain HTTP, and is not on this machine", r.URL.Host)
	}
	return g.base.RoundTrip(r)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
