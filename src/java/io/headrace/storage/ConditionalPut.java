package io.headrace.storage;

import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** Writes an object unless it exists, in one request that the store decides. */
final class ConditionalPut {
  // A file system that does not know the option refuses it.
  private static final String IF_ABSENT = "fs.option.create.conditional.overwrite";

  private ConditionalPut() {}

  /**
   * Write an object unless it exists.
   *
   * <p>If the answer to the request gets lost, the client sends it again, and the store refuses the second by the first.
   * So what is there counts as written if it has the same content: each commit of Delta, and each batch of a stream,
   * contains an id or a time of its own.
   *
   * @throws FileAlreadyExistsException if another writer was first
   */
  static void write(FileSystem files, Path path, byte[] content) throws IOException {
    FSDataOutputStreamBuilder<?, ?> builder = files.createFile(path).recursive();
    builder.must(IF_ABSENT, true);
    try (FSDataOutputStream stream = builder.build()) {
      stream.write(content);
    } catch (IOException error) {
      // Which exception tells of a refusal differs between the requests of the client, and its versions.
      if (!isContent(files, path, content, error)) {
        FileAlreadyExistsException taken = new FileAlreadyExistsException(path + " already exists");
        taken.initCause(error);
        throw taken;
      }
    }
  }

  private static boolean isContent(FileSystem files, Path path, byte[] content, IOException error) throws IOException {
    try (InputStream stream = files.open(path)) {
      return Arrays.equals(stream.readAllBytes(), content);
    } catch (IOException unreadable) {
      // Nothing is there, or the store does not answer: the write failed for another reason.
      error.addSuppressed(unreadable);
      throw error;
    }
  }
}
