-- Every row is a file of the artifact, for example a manifest.
CREATE TABLE manifests (
    path    text PRIMARY KEY,
    content text NOT NULL
);

-- Tell whoever listens that something has changed.
CREATE FUNCTION tell_of_manifests() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('manifests', '');
    RETURN NULL;
END
$$;

CREATE TRIGGER manifests_changed
    AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON manifests
    FOR EACH STATEMENT EXECUTE FUNCTION tell_of_manifests();
