package cluster

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
)

// errNoVersion is of an answer that is JSON, and no version.
var errNoVersion = errors.New("its answer to /version names none")

// reach asks the cluster for its version, which everybody may.
func (l *Lab) reach(ctx context.Context, client kubernetes.Interface) error {
	version, err := client.Discovery().ServerVersion(ctx)
	if err == nil && version.GitVersion == "" {
		err = errNoVersion
	}
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
	if errors.As(err, &status) {
		return l.answered(status.Status())
	}
	var untrusted *tls.CertificateVerificationError
	var garbled *json.SyntaxError
	var other *json.UnmarshalTypeError
	try := l.try()
	switch {
	case strings.Contains(err.Error(), "getting credentials: "): // client-go's plugin/pkg/client/auth/exec says so in words alone
		return errs.WithHint(fmt.Errorf("the login program for %s gave no credentials, so nothing was asked of the cluster: %w", l.where(), err),
			"log in to the cluster again, see what that program says (it is under exec in the kubeconfig), or name another context with --context%s", try)
	case errors.As(err, &untrusted):
		return errs.WithHint(fmt.Errorf("what answers at %s, for %s, has a certificate that cannot be trusted: %w", l.config.Host, l.where(), err),
			"see whether the kubeconfig is that of this cluster, no proxy answers in the cluster's place, and this machine's clock is right; another context is named with --context%s", try)
	case errors.Is(err, http.ErrSchemeMismatch):
		return errs.WithHint(fmt.Errorf("what answers at %s, for %s, does not speak TLS: %w", l.config.Host, l.where(), err),
			"see whether address and port are those of the API server; another context is named with --context%s", try)
	case errors.As(err, &garbled), errors.As(err, &other), errors.Is(err, errNoVersion):
		return errs.WithHint(fmt.Errorf("what answers at %s, for %s, is no API server: %w", l.config.Host, l.where(), err),
			"see whether the address is right, and no proxy answers in the cluster's place; another context is named with --context%s", try)
	}
	return errs.WithHint(fmt.Errorf("the cluster of %s does not answer: %w", l.where(), err),
		"see whether the cluster runs and this machine reaches it, or name another context with --context%s", try)
}

// answered is [Lab.unreached] where the answer is a status of HTTP that is no success.
func (l *Lab) answered(status metav1.Status) error {
	says, try := inWords(int(status.Code))+words(status), l.try()
	switch {
	case status.Code == http.StatusUnauthorized:
		return errs.WithHint(fmt.Errorf("the API server at %s rejects the credentials of %s: it answers %s", l.config.Host, l.where(), says),
			"they may have expired: log in to the cluster again, or name another context with --context%s", try)
	case status.Code == http.StatusForbidden:
		return errs.WithHint(fmt.Errorf("the API server at %s does not tell its version to %s: it answers %s", l.config.Host, l.where(), says),
			"Kubernetes tells it to everybody unless an administrator or a proxy forbids that: ask there, log in to the cluster again, or name another context with --context%s", try)
	case strings.Contains(says, "HTTP request to an HTTPS server"): // net/http's Server
		return errs.WithHint(fmt.Errorf("what answers at %s, for %s, speaks only TLS: it answers %s", l.config.Host, l.where(), says),
			"the address of an API server begins with https://; another context is named with --context%s", try)
	}
	return errs.WithHint(fmt.Errorf("what answers at %s, for %s, is no API server, or no healthy one: to /version it answers %s", l.config.Host, l.where(), says),
		"see whether the address is right and the cluster is well; another context is named with --context%s", try)
}

// words are those of the server itself, if it has any that are no page and no more than the
// status has.
func words(status metav1.Status) string {
	text := status.Message
	if status.Details != nil { // of an answer that is no object of Kubernetes the message is client-go's
		for _, cause := range status.Details.Causes {
			if cause.Type == metav1.CauseTypeUnexpectedServerResponse {
				text = cause.Message
			}
		}
	}
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if text == "" || text == "unknown" || strings.HasPrefix(text, "<") || text == http.StatusText(int(status.Code)) {
		return ""
	}
	return ": " + text
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
		return errs.WithHint(err, "every user whom the cluster knows may ask that: log in, or name another context with --context; `kubectl auth whoami` says who you are there")
	}
	return err
}
