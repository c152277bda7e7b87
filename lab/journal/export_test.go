package journal

import (
	"context"

	"k8s.io/client-go/dynamic"
)

// Die ends a journal like a killed process: it stops renewing, and returns
// nothing.
func Die(j *Journal) {
	j.lease.cancel(nil)
	<-j.lease.done
}

// Rise makes a journal that died renew once more, as after its machine slept,
// and returns the result.
func Rise(ctx context.Context, j *Journal) error {
	err := j.lease.renew(ctx)
	if err != nil {
		j.lease.lose(err)
	}
	return err
}

// RemoveNamespace removes the journal's namespace.
func RemoveNamespace(ctx context.Context, kube dynamic.Interface) error {
	_, err := removeNamespace(ctx, kube, func() error { return nil })
	return err
}

// Namespaces is the resource of namespaces in the API.
var Namespaces = namespaces
