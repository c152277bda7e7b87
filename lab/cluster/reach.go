package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
)

// reach asks the cluster for its version, which everybody may.
func (l *Lab) reach(ctx context.Context, client kubernetes.Interface) error {
	version, err := client.Discovery().ServerVersion(ctx)
	if err != nil {
		return l.unreached(err)
	}
	l.version = version.GitVersion
	return nil
}

// unreached says of what answered the request for the version, or did not, what it
// says of the cluster, and what to do.
func (l *Lab) unreached(err error) error {
	var status apierrors.APIStatus
	var garbled *json.SyntaxError
	answered := errors.As(err, &status)
	code := 0
	if answered {
		code = int(status.Status().Code)
	}
	try := l.try()
	switch {
	case code == http.StatusUnauthorized:
		return errs.WithHint(fmt.Errorf("the API server at %s does not take the credentials of %s: it answers %s: %w", l.config.Host, l.where(), inWords(code), err),
			"they may have run out: log in to the cluster again, or name another context with --context%s", try)
	case code == http.StatusForbidden:
		return errs.WithHint(fmt.Errorf("the API server at %s does not tell its version to %s: it answers %s", l.config.Host, l.where(), inWords(code)),
			"Kubernetes tells it to everybody unless an administrator or a proxy forbids that: ask there, log in to the cluster again, or name another context with --context%s", try)
	case answered:
		return errs.WithHint(fmt.Errorf("what answers at %s, for %s, is no API server, or no healthy one: to /version it answers %s", l.config.Host, l.where(), inWords(code)),
			"see whether the address is right and the cluster is well; another context is named with --context%s", try)
	case errors.As(err, &garbled):
		return errs.WithHint(fmt.Errorf("what answers at %s, for %s, is no API server: %w", l.config.Host, l.where(), err),
			"see whether the address is right, and no proxy answers in the cluster's place; another context is named with --context%s", try)
	}
	return errs.WithHint(fmt.Errorf("the cluster of %s does not answer: %w", l.where(), err),
		"see whether the cluster runs and this machine reaches it, or name another context with --context%s", try)
}

// inWords is a status of HTTP with its name.
func inWords(code int) string {
	if text := http.StatusText(code); text != "" {
		return fmt.Sprintf("%d %s", code, text)
	}
	return fmt.Sprintf("status %d", code)
}

// try ends a hint with the order by which kubectl tries the same; a pod has none.
func (l *Lab) try() string {
	switch len(l.files) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("; to try it: kubectl --kubeconfig %s --context %s version", l.files[0], l.context)
	}
	return fmt.Sprintf("; to try it: kubectl --context %s version", l.context) // of KUBECONFIG's files
}

// refused gives the error of a cluster that does not even answer what its users may do a
// hint. Whoever is logged in may ask that.
func refused(err error) error {
	if apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) {
		return errs.WithHint(err, "every user whom the cluster knows may ask that: log in to it, or name another context with --context; `kubectl auth whoami` says whom it takes you for")
	}
	return err
}
