package postgres

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/nslifecycle/nslifecycle/store"
)

// The codes of errors of the server that matter here (PostgreSQL documentation,
// appendix A).
const (
	codeLockTimeout    = "55P03"
	codePrivilege      = "42501"
	codeReadOnly       = "25006"
	codeUndefinedTable = "42P01"
	codeInvalidSchema  = "3F000"
	codeNoDatabase     = "3D000"
	codePassword       = "28P01"
	codeAuthorization  = "28000"
	codeDiskFull       = "53100"
	codeSerialization  = "40001"
	codeDeadlock       = "40P01"
)

// code returns the code of the error that the server reported, or "".
func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func timedOut(err error) bool { return code(err) == codeLockTimeout }

// definite reports whether err, which a commit failed with, says that nothing was
// committed: the server itself has answered with an error that is not its own end.
func definite(err error) bool {
	if errors.Is(err, errRolledBack) {
		return true
	}
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.SeverityUnlocalized == "ERROR" || e.SeverityUnlocalized == "" && e.Severity == "ERROR")
}

// explain adds to an error of the server what to do about it.
func explain(err error) error {
	switch code(err) {
	case codePrivilege:
		return fmt.Errorf("%w: grant USAGE on the schema, and SELECT, INSERT, UPDATE and DELETE on its tables: %w", ErrPrivilege, err)
	case codeReadOnly:
		return fmt.Errorf("%w: connect to the primary: %w", ErrReadOnly, err)
	case codeUndefinedTable, codeInvalidSchema:
		return fmt.Errorf("%w: a table or the schema is missing, open the store anew: %w", store.ErrClosed, err)
	case codeNoDatabase:
		return fmt.Errorf("there is no such database, create it first: %w", err)
	case codePassword, codeAuthorization:
		return fmt.Errorf("the server refuses the role, check user, password and pg_hba.conf: %w", err)
	case codeDiskFull:
		return fmt.Errorf("the server's disk is full, nothing was written: %w", err)
	}
	return err
}
