package io.headrace.storage;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.Options.Rename;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * The files of a stream's checkpoint in an object store or HDFS: of two drivers that plan one batch, one fails.
 *
 * <p>Spark's own managers write a draft and rename it, which in an object store is a copy that replaces what is there.
 * Its manager for object stores logs what fails when a file is closed, and goes on as if the file were written.
 *
 * <p>On HDFS, Spark's manager by file systems leaves an older file where it should replace it. The NameNode renames with
 * or without replacing if it is asked through a file context. On other file systems, such as a local disk, this is
 * Spark's manager.
 */
public class ConditionalCheckpointFileManager extends FileSystemBasedCheckpointFileManager {
  private final boolean isObjectStore;
  private final FileContext hdfs;

  public ConditionalCheckpointFileManager(Path path, Configuration conf) throws IOException {
    super(path, conf);
    isObjectStore = "s3a".equals(fs().getScheme());
    hdfs = "hdfs".equals(fs().getScheme()) ? FileContext.getFileContext(fs().getUri(), conf) : null;
  }

  @Override
  public void renameTempFile(Path draft, Path target, boolean overwriteIfPossible) {
    if (hdfs == null) {
      super.renameTempFile(draft, target, overwriteIfPossible);
      return;
    }
    try {
      hdfs.rename(draft, target, overwriteIfPossible ? Rename.OVERWRITE : Rename.NONE);
    } catch (IOException error) {
      throw this.<RuntimeException>asIs(error);
    }
  }

  /** Spark catches the exception of a name that is taken, which its method in Scala does not declare. */
  @SuppressWarnings("unchecked")
  private <E extends Throwable> E asIs(IOException error) throws E {
    throw (E) error;
  }

  @Override
  public CheckpointFileManager.CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible) {
    if (!isObjectStore) {
      return super.createAtomic(path, overwriteIfPossible);
    }
    try {
      return overwriteIfPossible ? new Replacement(fs().create(path, true)) : new NewObject(path);
    } catch (IOException error) {
      throw new java.io.UncheckedIOException(error);
    }
  }

  /** A file of state, which only its own task writes; readers see it once it is closed. */
  private static final class Replacement extends CheckpointFileManager.CancellableFSDataOutputStream {
    private final FSDataOutputStream stream;
    private boolean ended;

    private Replacement(FSDataOutputStream stream) {
      super(stream);
      this.stream = stream;
    }

    @Override
    public void close() throws IOException {
      if (!ended) {
        ended = true;
        super.close();
      }
    }

    @Override
    public void cancel() {
      if (!ended) {
        ended = true;
        stream.abort();
      }
    }
  }

  /** A file that decides between drivers; it is small, and kept until it is closed. */
  private final class NewObject extends CheckpointFileManager.CancellableFSDataOutputStream {
    private final Path path;
    private boolean ended;

    private NewObject(Path path) {
      super(new ByteArrayOutputStream());
      this.path = path;
    }

    @Override
    public void close() throws IOException {
      if (!ended) {
        ended = true;
        flush();
        ConditionalPut.write(fs(), path, ((ByteArrayOutputStream) underlyingStream()).toByteArray());
      }
    }

    @Override
    public void cancel() {
      ended = true;
    }
  }
}
