package io.headrace.storage;

import io.delta.storage.CloseableIterator;
import io.delta.storage.HadoopFileSystemLogStore;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Delta's log in an object store: of several writers of a version, exactly one succeeds.
 *
 * <p>Delta's own log store for S3 looks whether a name is free, and writes; it allows one driver alone. Here the store
 * itself decides, by a conditional put.
 *
 * <p>A commit of 0 bytes is refused. Delta takes it for a commit without changes.
 */
public class ConditionalLogStore extends HadoopFileSystemLogStore {
  private static final Pattern COMMIT = Pattern.compile("\\d{20}(\\.[0-9a-f-]{36})?\\.json");

  public ConditionalLogStore(Configuration conf) {
    super(conf);
  }

  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration conf) throws IOException {
    ByteArrayOutputStream content = new ByteArrayOutputStream();
    while (actions.hasNext()) {
      content.write(actions.next().getBytes(StandardCharsets.UTF_8));
      content.write('\n');
    }
    FileSystem files = path.getFileSystem(conf);
    if (overwrite) {
      try (FSDataOutputStream stream = files.create(path, true)) {
        content.writeTo(stream);
      }
      return;
    }
    try {
      ConditionalPut.write(files, path, content.toByteArray());
    } catch (FileAlreadyExistsException error) {
      // Delta knows the exception of Java alone.
      java.nio.file.FileAlreadyExistsException taken = new java.nio.file.FileAlreadyExistsException(path.toString());
      taken.initCause(error);
      throw taken;
    }
  }

  @Override
  public CloseableIterator<String> read(Path path, Configuration conf) throws IOException {
    CloseableIterator<String> lines = super.read(path, conf);
    if (COMMIT.matcher(path.getName()).matches() && !lines.hasNext()) {
      lines.close();
      throw new EmptyCommitException(path.toString());
    }
    return lines;
  }

  @Override
  public Boolean isPartialWriteVisible(Path path, Configuration conf) {
    return false;
  }
}
