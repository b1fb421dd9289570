;;; edn-bridge-hands-tests.el --- Tests of open buffers and tools  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Code:

(require 'edn-bridge-test-support)
(require 'edn-bridge-live-tests)
(require 'flymake)

(defmacro edn-bridge-hands-tests-with-file (spec &rest body)
  "Run BODY in a chat of a folder with a file that is open.
SPEC is (CONN SENT VISITING TEXT): VISITING is bound to the buffer of the
file a.el, which has TEXT."
  (declare (indent 1) (debug t))
  (pcase-let ((`(,conn ,sent ,visiting ,text) spec))
    `(let* ((folder (file-name-as-directory
                     (file-truename (make-temp-file "edn-hands" t))))
            (file (expand-file-name "a.el" folder))
            (,visiting nil))
       (unwind-protect
           (progn
             (write-region ,text nil file nil 'quiet)
             (setq ,visiting (find-file-noselect file))
             (edn-bridge-test-with-chat (,conn ,sent)
               (setq default-directory folder)
               ,@body))
         (when (buffer-live-p ,visiting)
           (with-current-buffer ,visiting
             (set-buffer-modified-p nil)
             (kill-buffer)))
         (delete-directory folder t)))))

(defun edn-bridge-hands-tests-params (sent op)
  "Return the parameters of the last request of OP in SENT."
  (plist-get (cl-find op sent :key (lambda (frame) (plist-get frame :op))
                      :test #'equal)
             :params))

(defmacro edn-bridge-hands-tests-file (action &rest more)
  "Ask for ACTION on the file of the test, with MORE; return the answer."
  `(progn
     (edn-bridge-test-event
      conn "file/requested" :session-id "s1" :request-id "r1"
      :action ,action :path file ,@more)
     (let ((answer (edn-bridge-hands-tests-params sent "file_result")))
       (should (equal (plist-get answer :request-id) "r1"))
       answer)))

(defun edn-bridge-hands-tests-digest (text)
  "Return the digest of TEXT."
  (secure-hash 'sha256 (encode-coding-string text 'utf-8-unix)))

(defun edn-bridge-hands-tests-disk (file)
  "Return what FILE has on disk."
  (with-temp-buffer
    (let ((coding-system-for-read 'utf-8-unix))
      (insert-file-contents file))
    (buffer-string)))

;;;; Files

(defun edn-bridge-hands-tests-visited (file)
  "Return the state of FILE as the bridge would tell it."
  (let ((attributes (file-attributes file)))
    (list :device (file-attribute-device-number attributes)
          :inode (file-attribute-inode-number attributes)
          :time (car (time-convert
                      (file-attribute-modification-time attributes)
                      1000000000)))))

(defun edn-bridge-hands-tests-put (file bytes)
  "Write BYTES to FILE as the bridge does: in a new file of that name."
  (let ((new (concat file ".new"))
        (coding-system-for-write 'binary))
    (write-region bytes nil new nil 'quiet)
    (rename-file new file t)))

(defmacro edn-bridge-hands-tests-saved (bytes)
  "Have the bridge save BYTES for the request of the test, and tell so."
  `(let ((bytes ,bytes))
     (edn-bridge-hands-tests-put file bytes)
     (edn-bridge-test-event
      conn "file/changed" :session-id "s1" :request-id "r1" :path file
      :sha256 (secure-hash 'sha256 bytes)
      :visited (edn-bridge-hands-tests-visited file))))

(defmacro edn-bridge-hands-tests-changed (bytes)
  "Have somebody else give the file BYTES, and the bridge tell of it."
  `(let ((bytes ,bytes))
     (edn-bridge-hands-tests-put file bytes)
     (let ((visited (edn-bridge-hands-tests-visited file)))
       (edn-bridge-test-blind
         (edn-bridge-test-event
          conn "file/changed" :session-id "s1" :path file
          :sha256 (secure-hash 'sha256 bytes) :visited visited
          :bytes (base64-encode-string bytes t))))))

(ert-deftest edn-bridge-files-open-ones-are-told ()
  (edn-bridge-hands-tests-with-file (conn sent visiting "(a)\n")
    (cl-flet ((told (modified)
                (list (list :path file :modified modified
                            :visited (edn-bridge-hands-tests-visited file))))
              (files ()
                (append (plist-get (edn-bridge-hands-tests-params
                                    sent "register_files")
                                   :files)
                        nil)))
      (let ((expected (told :false)))
        (edn-bridge-test-blind (edn-bridge-files-tell))
        (should (equal (files) expected)))
      (should (string-match-p
               (format "@.*\\.%d\\'" (emacs-pid))
               (plist-get (edn-bridge-hands-tests-params sent "register_files")
                          :lock)))
      (edn-bridge-test-answer conn sent "register_files" :files 1)
      (should edn-bridge-buffers-shared)
      ;; Only news is told.
      (setq sent nil)
      (edn-bridge-files-tell)
      (should-not sent)
      (with-current-buffer visiting (insert "x"))
      (edn-bridge-test-event conn "tool/start" :session-id "s1" :tool-id "c1"
                             :tool-name "read")
      (should (equal (files) (told t)))
      ;; It is the user's to say.  Then buffers only follow.
      (let ((edn-bridge-files-share nil))
        (edn-bridge-files-tell)
        (should (equal (files) (told :false)))
        (should (equal (edn-bridge-hands-tests-file "read")
                       '(:request-id "r1" :status "closed")))
        (let ((edn-bridge-buffers-revert nil))
          (edn-bridge-files-tell)
          (should-not (files)))))))

(ert-deftest edn-bridge-files-elsewhere-are-not-told ()
  (let* ((elsewhere (make-temp-file "edn-elsewhere"))
         (other (find-file-noselect elsewhere)))
    (unwind-protect
        (edn-bridge-hands-tests-with-file (conn sent _visiting "(a)\n")
          (edn-bridge-files-tell)
          (should-not (string-search
                       elsewhere
                       (format "%S" (edn-bridge-hands-tests-params
                                     sent "register_files"))))
          (let ((file elsewhere))
            (should (equal (edn-bridge-hands-tests-file "read")
                           '(:request-id "r1" :status "closed")))))
      (kill-buffer other)
      (delete-file elsewhere))))

(ert-deftest edn-bridge-files-older-bridge-is-asked-once ()
  (edn-bridge-hands-tests-with-file (conn sent visiting "(a)\n")
    (edn-bridge-files-tell)
    (edn-bridge-rpc--dispatch-frame
     conn (list :kind :error :id (plist-get (car sent) :id)
                :op "register_files" :error-code "request/op-not-supported"
                :error-message "No"))
    (setq sent nil)
    (with-current-buffer visiting (insert "x"))
    (edn-bridge-files-tell)
    (should-not sent)
    ;; Then the question says what would be missed.
    (should (equal (edn-bridge-buffers-unsaved (list file)) (list file)))
    ;; Once, whatever the file is called.
    (should (equal (edn-bridge-buffers-unsaved (list file "a.el"))
                   (list file)))))

(ert-deftest edn-bridge-files-approval-says-what-is-saved-too ()
  (edn-bridge-hands-tests-with-file (conn sent visiting "(a)\n")
    (edn-bridge-files-tell)
    (edn-bridge-test-answer conn sent "register_files" :files 1)
    (with-current-buffer visiting (insert "x"))
    (edn-bridge-test-ask conn "approve"
                         (list :tool "edit" :paths (vector file)
                               :diff "@@ -1 +1 @@\n"))
    (should (string-match-p
             "^! .*a.el has unsaved changes in Emacs, which would be saved too"
             (edn-bridge-test-transcript)))))

(ert-deftest edn-bridge-files-read-sees-unsaved-changes ()
  (edn-bridge-hands-tests-with-file (conn sent visiting "(a)\n(b)\n")
    (edn-bridge-files-tell)
    (with-current-buffer visiting
      (goto-char (point-max))
      (insert "(unsaved ä)\n")
      (narrow-to-region 1 4))
    (edn-bridge-test-blind
      (should (equal (edn-bridge-hands-tests-file "read")
                     (list :request-id "r1" :status "ok"
                           :text "(a)\n(b)\n(unsaved ä)\n" :modified t
                           :base (edn-bridge-hands-tests-digest
                                  "(a)\n(b)\n")))))
    (should (equal (edn-bridge-hands-tests-disk file) "(a)\n(b)\n"))))

(ert-deftest edn-bridge-files-text-of-an-unknown-state-says-its-visit ()
  (edn-bridge-hands-tests-with-file (conn sent visiting "(a)\n")
    (with-current-buffer visiting (insert "x"))
    (edn-bridge-files-tell)
    (let ((answer (edn-bridge-hands-tests-file "read")))
      (should-not (plist-get answer :base))
      (should (equal (plist-get answer :visited)
                     (edn-bridge-hands-tests-visited file))))
    ;; What was noted before the user saved says nothing any more.
    (with-current-buffer visiting
      (let ((inhibit-message t)) (save-buffer))
      (edn-bridge-files--note-base "0")
      (insert "y")
      (let ((inhibit-message t)) (save-buffer))
      (insert "z"))
    (should-not (plist-get (edn-bridge-hands-tests-file "read") :base))))

(ert-deftest edn-bridge-files-write-is-one-change-and-not-saved-here ()
  (edn-bridge-hands-tests-with-file (conn sent visiting "one\ntwo\nthree\n")
    (let* ((old "one\ntwo\nthree\nmine\n")
           (new "one\nTWO, 2\nthree\nmine\n")
           (marker nil)
           (ran nil))
      (edn-bridge-files-tell)
      (with-current-buffer visiting
        (buffer-enable-undo)
        (goto-char (point-max))
        (insert "mine\n")
        (undo-boundary)
        (goto-char (point-min))
        (search-forward "three")
        (setq marker (point-marker))
        (add-hook 'before-save-hook (lambda () (setq ran t)) nil t))
      (edn-bridge-test-blind
        (should (equal (edn-bridge-hands-tests-file
                        "write" :text new
                        :expected (edn-bridge-hands-tests-digest old))
                       (list :request-id "r1" :status "ok" :text new
                             :modified t
                             :base (edn-bridge-hands-tests-digest
                                    "one\ntwo\nthree\n")))))
      (should (equal (edn-bridge-hands-tests-disk file) "one\ntwo\nthree\n"))
      (edn-bridge-hands-tests-saved new)
      (should-not ran)
      (with-current-buffer visiting
        (should (equal (buffer-string) new))
        (should-not (buffer-modified-p))
        (should (verify-visited-file-modtime))
        (should (eq (find-buffer-visiting file) visiting))
        ;; Who was reading still is there.
        (should (looking-back "three" (point-min)))
        (should (= marker (point)))
        (primitive-undo 1 (if (car buffer-undo-list)
                              buffer-undo-list
                            (cdr buffer-undo-list)))
        (should (equal (buffer-string) old))))))

;;;; Diagnostics

(defvar edn-bridge-hands-tests-late nil
  "Calls the report function of a checker that is slow, or nil.")

(defun edn-bridge-hands-tests-checker (report &rest _)
  "Report each \"bad\" of this buffer as an error to REPORT, and each \"odd\"."
  (let ((found nil)
        (buffer (current-buffer)))
    (save-excursion
      (goto-char (point-min))
      (while (re-search-forward "\\(bad\\)\\|odd" nil t)
        (push (flymake-make-diagnostic
               buffer (match-beginning 0) (match-end 0)
               (if (match-beginning 1) :error :note)
               (format "%s is here" (match-string 0)))
              found)))
    (if edn-bridge-hands-tests-late
        (setq edn-bridge-hands-tests-late (lambda () (funcall report found)))
      (funcall report found))))

(defmacro edn-bridge-hands-tests-checked (spec &rest body)
  "Run BODY in a chat with a checked file, as SPEC says: see above."
  (declare (indent 1) (debug t))
  (pcase-let ((`(,conn ,sent ,visiting ,text) spec))
    `(edn-bridge-hands-tests-with-file (,conn ,sent ,visiting ,text)
       (let ((edn-bridge-hands-tests-late nil)
             (inhibit-message t))
         (with-current-buffer ,visiting
           (fundamental-mode)
           (setq-local flymake-diagnostic-functions
                       '(edn-bridge-hands-tests-checker))
           (flymake-mode 1)
           (flymake-start))
         (edn-bridge-files-tell)
         ,@body))))

(defun edn-bridge-hands-tests-found (conn sent file turn)
  "Ask on CONN for what is new in FILE in TURN.
SENT returns the frames that were sent; return the answer's diagnostics."
  (edn-bridge-test-event
   conn "file/requested" :session-id "s1" :request-id "d1" :turn-id turn
   :action "diagnostics" :path file :timeout-ms 5000)
  (let ((answer nil))
    (with-timeout (10 (error "No answer"))
      (while (not (equal "d1" (plist-get
                               (setq answer (edn-bridge-hands-tests-params
                                             (funcall sent) "file_result"))
                               :request-id)))
        (accept-process-output nil 0.02)))
    (append (plist-get answer :diagnostics) nil)))

(defmacro edn-bridge-hands-tests-made (turn text)
  "Have the agent give the file of the test TEXT in TURN, and return what is new."
  `(progn
     (edn-bridge-hands-tests-file "write" :turn-id ,turn :text ,text)
     (edn-bridge-hands-tests-saved ,text)
     (setq sent nil)
     (edn-bridge-hands-tests-found conn (lambda () sent) file ,turn)))

(ert-deftest edn-bridge-diagnostics-new-ones-are-told-once ()
  (edn-bridge-hands-tests-checked (conn sent visiting "bad\n")
    (should (eq t (plist-get (aref (plist-get (edn-bridge-hands-tests-params
                                               sent "register_files")
                                              :files)
                                   0)
                             :diagnostics)))
    ;; What was there before is not new, also where it stands elsewhere now.
    (should (equal (edn-bridge-hands-tests-made "t1" "odd\n x bad\nbad\n")
                   '((:line 1 :column 1 :severity "note" :message "odd is here")
                     (:line 3 :column 1 :severity "error"
                            :message "bad is here"))))
    (should-not (edn-bridge-hands-tests-made "t1" "odd\nbad\nbad\n;\n"))
    (should-not (edn-bridge-hands-tests-made "t1" "fine\n"))
    (should (= 1 (length (edn-bridge-hands-tests-made "t1" "bad\n"))))
    ;; What the user has made between two turns is not the agent's.
    (with-current-buffer visiting
      (goto-char (point-max))
      (insert "bad\n")
      (flymake-start))
    (edn-bridge-hands-tests-file
     "write" :turn-id "t2" :text "bad\nbad\n\n"
     :expected (edn-bridge-hands-tests-digest "bad\nbad\n"))
    (setq sent nil)
    (should-not (edn-bridge-hands-tests-found conn (lambda () sent) file "t2"))))

(ert-deftest edn-bridge-diagnostics-of-a-slow-checker-come-later ()
  (edn-bridge-hands-tests-checked (conn sent visiting "fine\n")
    (setq edn-bridge-hands-tests-late #'ignore)
    (edn-bridge-hands-tests-file "write" :turn-id "t1" :text "bad\n")
    (edn-bridge-hands-tests-saved "bad\n")
    (setq sent nil)
    (edn-bridge-test-event
     conn "file/requested" :session-id "s1" :request-id "d0" :turn-id "t1"
     :action "diagnostics" :path file :timeout-ms 10)
    (with-timeout (10 (error "No answer"))
      (while (not sent) (accept-process-output nil 0.02)))
    (should (equal (edn-bridge-hands-tests-params sent "file_result")
                   '(:request-id "d0" :status "ok" :diagnostics [])))
    (with-current-buffer visiting (funcall edn-bridge-hands-tests-late))
    (setq edn-bridge-hands-tests-late nil)
    (should (equal (mapcar (lambda (one) (plist-get one :message))
                           (edn-bridge-hands-tests-made "t1" "\nbad\n"))
                   '("bad is here")))))

(ert-deftest edn-bridge-diagnostics-unless-the-user-says-no ()
  (let ((edn-bridge-diagnostics-share nil))
    (edn-bridge-hands-tests-checked (conn sent visiting "fine\n")
      (should-not (plist-member
                   (aref (plist-get (edn-bridge-hands-tests-params
                                     sent "register_files")
                                    :files)
                         0)
                   :diagnostics))
      (should (equal (edn-bridge-hands-tests-file "diagnostics")
                     '(:request-id "r1" :status "closed"))))))

(ert-deftest edn-bridge-files-write-makes-no-lock-and-asks-nothing ()
  (edn-bridge-hands-tests-with-file (conn sent visiting "one\n")
    (let ((lock (expand-file-name ".#a.el" folder)))
      ;; Somebody else's lock, and a file that has changed since.
      (make-symbolic-link "other@elsewhere.12345" lock)
      (edn-bridge-hands-tests-put file "two\n")
      (let ((create-lockfiles t))
        (edn-bridge-test-blind
          (should (equal (plist-get (edn-bridge-hands-tests-file
                                     "write" :text "three\n" :expected "")
                                    :status)
                         "ok"))))
      (should (equal (file-symlink-p lock) "other@elsewhere.12345")))))

(ert-deftest edn-bridge-files-write-that-is-not-on-disk-is-undone ()
  (edn-bridge-hands-tests-with-file (conn sent visiting "one\n")
    (edn-bridge-test-blind
      (edn-bridge-hands-tests-file "write" :text "two\n" :expected "")
      (edn-bridge-test-event conn "request/cancelled" :session-id "s1"
                             :request-id "r1" :reason "not-written"))
    (with-current-buffer visiting
      (should (equal (buffer-string) "one\n"))
      (should-not (buffer-modified-p)))
    ;; What the user types meanwhile stays.
    (edn-bridge-hands-tests-file "write" :text "two\n" :expected "")
    (with-current-buffer visiting (insert "typed "))
    (edn-bridge-test-event conn "request/cancelled" :session-id "s1"
                           :request-id "r1" :reason "not-written")
    (with-current-buffer visiting
      (should (equal (buffer-string) "typed two\n"))
      (should (buffer-modified-p)))))

(ert-deftest edn-bridge-files-saved-with-typed-text-stays-modified ()
  (edn-bridge-hands-tests-with-file (conn sent visiting "one\n")
    (edn-bridge-hands-tests-file "write" :text "two\n" :expected "")
    (with-current-buffer visiting
      (goto-char (point-max))
      (insert "typed\n"))
    (edn-bridge-hands-tests-saved "two\n")
    (with-current-buffer visiting
      (should (buffer-modified-p))
      (should (verify-visited-file-modtime)))
    (should (equal (plist-get (edn-bridge-hands-tests-file "read") :base)
                   (edn-bridge-hands-tests-digest "two\n")))))

(ert-deftest edn-bridge-files-write-over-another-text-is-refused ()
  (edn-bridge-hands-tests-with-file (conn sent visiting "one\n")
    (with-current-buffer visiting
      (goto-char (point-max))
      (insert "typed meanwhile\n"))
    (should (equal (edn-bridge-hands-tests-file
                    "write" :text "two\n"
                    :expected (edn-bridge-hands-tests-digest "one\n"))
                   '(:request-id "r1" :status "changed")))
    (should (equal (with-current-buffer visiting (buffer-string))
                   "one\ntyped meanwhile\n"))
    (should (equal (edn-bridge-hands-tests-disk file) "one\n"))))

(ert-deftest edn-bridge-files-follow-by-message ()
  (edn-bridge-hands-tests-with-file (conn sent visiting "one\ntwo\n")
    (dolist (read-only '(nil t))
      (with-current-buffer visiting (setq buffer-read-only read-only))
      (let ((text (format "one\n%s ä\n" read-only)))
        (edn-bridge-hands-tests-changed (encode-coding-string text 'utf-8))
        (with-current-buffer visiting
          (should (equal (buffer-string) text))
          (should-not (buffer-modified-p))
          (should (verify-visited-file-modtime)))))
    (with-current-buffer visiting
      (setq buffer-read-only nil)
      (insert "mine "))
    (let ((before (with-current-buffer visiting (buffer-string))))
      (dotimes (_ 2)
        (edn-bridge-hands-tests-changed "other\n"))
      (should (equal (with-current-buffer visiting (buffer-string)) before)))
    ;; It is said once.
    (should (equal (cl-count-if
                    (lambda (line)
                      (string-prefix-p "a.el was changed on disk, and its buffer"
                                       line))
                    (split-string (edn-bridge-test-transcript) "\n"))
                   1))
    ;; What has become equal has no unsaved changes.
    (edn-bridge-hands-tests-changed
     (encode-coding-string (with-current-buffer visiting (buffer-string))
                           'utf-8))
    (should-not (buffer-modified-p visiting))
    (edn-bridge-test-event conn "file/changed" :session-id "s1" :path file
                           :problem "it is no regular file")
    (should (string-match-p "^a.el is no file .*: it is no regular file"
                            (edn-bridge-test-transcript)))
    (let ((edn-bridge-buffers-revert nil)
          (before (with-current-buffer visiting (buffer-string))))
      (edn-bridge-hands-tests-changed "not followed\n")
      (should (equal (with-current-buffer visiting (buffer-string)) before)))))

(ert-deftest edn-bridge-files-coding-is-kept ()
  (pcase-dolist (`(,coding . ,bytes)
                 '((latin-1-dos . "\351\r\nb\r\n")
                   (utf-16le-with-signature-unix
                    . "\377\376\351\0\n\0b\0\n\0")
                   (utf-8-with-signature-unix . "\357\273\277\303\251\nb\n")))
    (edn-bridge-hands-tests-with-file (conn sent visiting "a\n")
      (with-current-buffer visiting
        (erase-buffer)
        (insert "é\nb\n")
        (set-buffer-file-coding-system coding)
        (let ((inhibit-message t)) (save-buffer)))
      (let* ((dos (eq coding 'latin-1-dos))
             (text (if dos "é\r\nb\r\n" "é\nb\n"))
             (answer (edn-bridge-test-blind
                       (edn-bridge-hands-tests-file "read"))))
        (should (equal (plist-get answer :text) text))
        (should (equal (base64-decode-string (plist-get answer :bytes)) bytes))
        (should (equal (plist-get answer :base) (secure-hash 'sha256 bytes)))
        ;; What cannot be kept so is not put there; nothing is asked.
        (when dos
          (let ((answer (edn-bridge-hands-tests-file
                         "write" :text "世\r\n" :expected "")))
            (should (equal (plist-get answer :status) "failed"))
            (should (string-search "latin-1"
                                   (plist-get answer :error-message)))))
        (edn-bridge-files-tell)
        (should (plist-get (aref (plist-get (edn-bridge-hands-tests-params
                                             sent "register_files")
                                            :files)
                                 0)
                           :encoding))
        (let* ((new (string-replace "é" "è" text))
               (answer (edn-bridge-hands-tests-file
                        "write" :text new :expected ""))
               (written (base64-decode-string (plist-get answer :bytes))))
          (should (equal (plist-get answer :text) new))
          (edn-bridge-hands-tests-saved written)
          (should-not (buffer-modified-p visiting)))
        (edn-bridge-hands-tests-changed bytes)
        (should (equal (with-current-buffer visiting (buffer-string))
                       "é\nb\n"))))))

(ert-deftest edn-bridge-files-read-only-ones-are-the-disks ()
  (edn-bridge-hands-tests-with-file (conn sent visiting "one\n")
    (with-current-buffer visiting
      (setq buffer-read-only t))
    (should (equal (edn-bridge-hands-tests-file
                    "write" :text "two\n"
                    :expected (edn-bridge-hands-tests-digest "one\n"))
                   '(:request-id "r1" :status "closed")))))

(ert-deftest edn-bridge-files-hook-of-saving-runs-if-the-user-says-so ()
  (edn-bridge-hands-tests-with-file (conn sent visiting "one\n")
    (with-current-buffer visiting
      (add-hook 'before-save-hook
                (lambda () (goto-char (point-max)) (insert "by a hook\n"))
                nil t))
    (let* ((edn-bridge-files-run-before-save t)
           (answer (edn-bridge-hands-tests-file
                    "write" :text "two\n" :expected "")))
      (should (equal (plist-get answer :text) "two\nby a hook\n"))
      (should (eq (plist-get answer :final) t)))))

(ert-deftest edn-bridge-files-random-edits-arrive ()
  (edn-bridge-hands-tests-with-file (conn sent visiting "")
    (let ((old "")
          (letters ["a" "b" "\n" "ä" "世" "aa" "\n\n"]))
      (random "edits")
      (dotimes (_ 60)
        (let* ((from (random (1+ (length old))))
               (to (+ from (random (1+ (- (length old) from)))))
               (new (concat (substring old 0 from)
                            (mapconcat (lambda (_) (aref letters (random 7)))
                                       (make-list (random 8) nil) "")
                            (substring old to))))
          (should (equal (plist-get
                          (edn-bridge-hands-tests-file
                           "write" :text new
                           :expected (edn-bridge-hands-tests-digest old))
                          :text)
                         new))
          (should (equal (with-current-buffer visiting (buffer-string)) new))
          (edn-bridge-hands-tests-saved (encode-coding-string new 'utf-8))
          (should-not (buffer-modified-p visiting))
          (setq old new))))))

;;;; Tools

(defun edn-bridge-hands-tests-call (conn name arguments)
  "Ask on CONN for a call of the tool NAME with ARGUMENTS."
  (edn-bridge-test-event conn "tool/requested" :session-id "s1"
                         :request-id "r1" :tool-id "c1" :tool-name name
                         :arguments arguments :timeout-ms 60000))

(defmacro edn-bridge-hands-tests-result (name &rest arguments)
  "Return the text that the tool NAME answers ARGUMENTS with."
  `(progn
     (setq sent nil)
     (edn-bridge-hands-tests-call conn ,name (list ,@arguments))
     (plist-get (edn-bridge-test-wait
                 (edn-bridge-hands-tests-params sent "tool_result") 5)
                :text)))

(ert-deftest edn-bridge-hands-offer-what-is-chosen ()
  (edn-bridge-test-with-chat (conn sent)
    (cl-flet ((names () (mapcar (lambda (tool) (plist-get tool :name))
                                (plist-get (edn-bridge-hands-tests-params
                                            sent "register_tools")
                                           :tools))))
      (edn-bridge-hands-offer)
      (should (equal (names)
                     '("editor-diagnostics" "editor-definitions"
                       "editor-references" "editor-outline"
                       "editor-project-files" "editor-buffers"
                       "editor-selection")))
      (should (cl-every (lambda (tool) (eq (plist-get tool :read-only) t))
                        (plist-get (edn-bridge-hands-tests-params
                                    sent "register_tools")
                                   :tools)))
      ;; They can be written, and read again.
      (should (edn-bridge-edn-read-string
               (edn-bridge-edn-print-string
                (edn-bridge-hands-tests-params sent "register_tools"))))
      (setq sent nil)
      (edn-bridge-hands-offer)
      (should-not sent)
      ;; Who does not want their selection seen is not asked for it.
      (setq-local edn-bridge-context-share nil)
      (edn-bridge-hands-offer)
      (should-not (member "editor-selection" (names)))
      (setq-local edn-bridge-hands-tools '(outline))
      (edn-bridge-hands-offer)
      (should (equal (names) '("editor-outline")))
      (edn-bridge-hands-tests-call conn "editor-buffers" nil)
      (should (eq (plist-get (edn-bridge-hands-tests-params sent "tool_result")
                             :is-error)
                  t))
      ;; Another session has none of them yet.
      (setq sent nil)
      (run-hooks 'edn-bridge-chat-ready-hook)
      (should (equal (names) '("editor-outline"))))))

(ert-deftest edn-bridge-hands-diagnostics-are-those-of-flymake ()
  (edn-bridge-hands-tests-with-file (conn sent visiting "(a)\n(b)\n")
    (should (equal (edn-bridge-hands-tests-result "editor-diagnostics")
                   "No checker runs in a.el."))
    (with-current-buffer visiting
      (setq-local flymake-diagnostic-functions
                  (list (lambda (report &rest _)
                          (funcall report
                                   (list (flymake-make-diagnostic
                                          (current-buffer) 6 8 :error
                                          "It is\nwrong"))))))
      (flymake-mode)
      (flymake-start)
      (edn-bridge-test-wait (flymake-diagnostics)))
    (dolist (arguments (list nil (list :path "a.el") (list :path file)))
      (should (equal (apply (lambda (&rest arguments)
                              (edn-bridge-hands-tests-result
                               "editor-diagnostics"
                               (car arguments) (cadr arguments)))
                            arguments)
                     "a.el:2:2: error: It is wrong")))
    (should (string-search "b.el is not open"
                           (edn-bridge-hands-tests-result
                            "editor-diagnostics" :path "b.el")))))

(ert-deftest edn-bridge-hands-outline-and-definitions-are-from-memory ()
  (edn-bridge-hands-tests-with-file
      (conn sent visiting "(defun edn-hands-x ()\n  1)\n\n(defvar edn-hands-y 2)\n(edn-hands-x)\n")
    (edn-bridge-test-blind
      (should (equal (edn-bridge-hands-tests-result "editor-outline"
                                                    :path "a.el")
                     "1: edn-hands-x\n4: Variables / edn-hands-y"))
      (should (equal (edn-bridge-hands-tests-result
                      "editor-definitions" :path "a.el" :symbol "edn-hands-x"
                      :line 5)
                     "a.el:1:8: (defun edn-hands-x ()"))
      ;; What Emacs has loaded, and what is elsewhere.
      (let ((load-history
             (append (list (list (expand-file-name "b.elc" folder)
                                 '(defun . edn-hands-z))
                           (list (expand-file-name "a.elc" folder)
                                 'edn-hands-y))
                     load-history)))
        (intern "edn-hands-z")
        (should (equal (edn-bridge-hands-tests-result
                        "editor-definitions" :path "a.el"
                        :symbol "edn-hands-z")
                       "b.el"))
        (should (equal (edn-bridge-hands-tests-result
                        "editor-definitions" :path "a.el"
                        :symbol "edn-hands-y")
                       "a.el:4:9: (defvar edn-hands-y 2)")))
      (should (equal (edn-bridge-hands-tests-result
                      "editor-definitions" :path "a.el" :symbol "seq-take")
                     "No definition of seq-take is known.\n(1 outside of the folder left out)")))
    (should (string-search "symbol is missing"
                           (edn-bridge-hands-tests-result
                            "editor-definitions" :path "a.el")))))

(ert-deftest edn-bridge-hands-no-file-is-searched-for-uses ()
  (edn-bridge-hands-tests-with-file
      (conn sent visiting "(defvar edn-hands-token 1)\n")
    (let ((default-directory folder))
      (call-process "git" nil nil nil "init" "-q" "."))
    (write-region "edn-hands-token HUSH\n" nil
                  (expand-file-name "secrets.el" folder) nil 'quiet)
    (cl-flet ((uses () (edn-bridge-hands-tests-result
                        "editor-references" :path "a.el"
                        :symbol "edn-hands-token")))
      ;; Emacs Lisp, tags, and whatever else may search files.
      (should (equal (uses) "No language server answers in this buffer: use search"))
      (with-current-buffer visiting (fundamental-mode))
      (should (equal (uses) "No language server answers in this buffer: use search"))
      (should (equal (edn-bridge-hands-tests-result
                      "editor-definitions" :path "a.el"
                      :symbol "edn-hands-token")
                     "No language server answers in this buffer: use search"))
      (with-current-buffer visiting
        (add-hook 'xref-backend-functions (lambda () 'edn-hands) nil t))
      (eval '(cl-defmethod xref-backend-references
               ((_backend (eql edn-hands)) _symbol)
               (list (xref-make "HUSH" (xref-make-file-location "a.el" 1 1))))
            t)
      (should (equal (uses) "No language server answers in this buffer: use search")))))

(defvar eglot-server-programs)
(defvar eglot-sync-connect)
(defvar eglot-autoshutdown)
(declare-function eglot "eglot")
(declare-function eglot-shutdown "eglot")
(declare-function eglot--guess-contact "eglot")
(declare-function eglot-current-server "eglot")
(defvar eglot--cached-server)

(ert-deftest edn-bridge-hands-language-server-is-asked-for-places-alone ()
  (skip-unless (require 'eglot nil t))
  (skip-unless (executable-find "python3"))
  (edn-bridge-hands-tests-with-file
      (conn sent visiting "(one)\n(two edn-hands-x)\n")
    (let ((eglot-server-programs
           `((emacs-lisp-mode
              . ("python3" ,(expand-file-name "language-server.py"
                                              edn-bridge-test-directory)))))
          (eglot-sync-connect t)
          (eglot-autoshutdown t)
          (inhibit-message t)
          (server nil)
          (other nil)
          (uses "a.el:2:6: (two edn-hands-x)\nb ä.el:3:5\n(2 outside of the folder left out)"))
      (write-region "\n\nHUSH HUSH" nil (expand-file-name "b ä.el" folder)
                    nil 'quiet)
      (unwind-protect
          (progn
            (with-current-buffer visiting
              (apply #'eglot (eglot--guess-contact))
              (setq server (eglot-current-server))
              ;; Eglot itself looks for it by the project where it has not yet.
              (setq eglot--cached-server nil))
            (cl-letf (((symbol-function 'project-current)
                       (lambda (&rest _) (error "Looked for the project")))
                      ((symbol-function 'insert-file-contents)
                       (lambda (&rest _) (error "A file was read"))))
              (should (equal (edn-bridge-hands-tests-result
                              "editor-references" :path "a.el"
                              :symbol "edn-hands-x")
                             uses))
              (should (equal (edn-bridge-hands-tests-result
                              "editor-definitions" :path "a.el"
                              :symbol "edn-hands-x")
                             "a.el:2:6: (two edn-hands-x)"))
              (should (equal (edn-bridge-hands-tests-result
                              "editor-references" :path "a.el"
                              :symbol "none")
                             "a.el does not contain none"))
              ;; What was typed is told before.
              (with-current-buffer visiting
                (goto-char (point-min))
                (insert "\n(fail)"))
              (should (equal (edn-bridge-hands-tests-result
                              "editor-references" :path "a.el"
                              :symbol "fail")
                             "The language server says: no: (fail)(one)")))
            ;; The bridge has not judged the other file, also if it is open.
            (with-current-buffer visiting (erase-buffer)
                                 (insert "(one)\n(two edn-hands-x)\n"))
            (setq other (find-file-noselect (expand-file-name "b ä.el" folder)))
            (should (equal (edn-bridge-hands-tests-result
                            "editor-references" :path "a.el"
                            :symbol "edn-hands-x")
                           uses)))
        (when other (kill-buffer other))
        (when server
          (with-current-buffer visiting
            (set-buffer-modified-p nil)
            (ignore-errors (eglot-shutdown server))))))))

(ert-deftest edn-bridge-hands-files-buffers-and-selection ()
  (edn-bridge-hands-tests-with-file (conn sent visiting "one\ntwo\nthree\n")
    (let ((default-directory folder))
      (call-process "git" nil nil nil "init" "-q" "."))
    (write-region "x" nil (expand-file-name "b.txt" folder) nil 'quiet)
    (should (equal (sort (split-string (edn-bridge-hands-tests-result
                                        "editor-project-files")
                                       "\n")
                         #'string-lessp)
                   '("a.el" "b.txt")))
    (should (equal (edn-bridge-hands-tests-result "editor-project-files"
                                                  :containing ".tx")
                   "b.txt"))
    (should (equal (edn-bridge-hands-tests-result "editor-buffers")
                   "a.el: emacs-lisp"))
    (with-current-buffer visiting
      (insert "zero\n")
      (transient-mark-mode)
      (goto-char (point-min))
      (forward-line)
      (push-mark (point) t t)
      (forward-line 2)
      (setq mark-active t))
    (should (equal (edn-bridge-hands-tests-result "editor-buffers")
                   "a.el: emacs-lisp, unsaved changes"))
    (should (equal (edn-bridge-hands-tests-result "editor-selection")
                   "a.el, line 4, column 1; selected from line 2 on:\none\ntwo\n"))))

(defmacro edn-bridge-hands-tests-in-a-trap (&rest body)
  "Run BODY in a chat of a repository that would run programs.
They would make the file TRAPPED."
  (declare (indent 0) (debug t))
  `(edn-bridge-hands-tests-with-file (conn sent visiting "one\n")
     (let ((trapped (make-temp-name (expand-file-name
                                     "edn-trapped" temporary-file-directory))))
       (unwind-protect
           (let ((default-directory folder)
                 (program (expand-file-name ".git/run" folder)))
             (call-process "git" nil nil nil "init" "-q" ".")
             (write-region (format "#!/bin/sh\necho x > %s\n" trapped) nil
                           program nil 'quiet)
             (set-file-modes program #o700)
             (call-process "git" nil nil nil "config" "core.fsmonitor" program)
             (call-process "git" nil nil nil "config" "core.hooksPath" ".git")
             ;; Emacs 28 and 29 evaluate it when project.el is asked.
             (write-region (format "((nil . ((eval . (write-region \"x\" nil %S)))))"
                                   trapped)
                           nil ".dir-locals.el" nil 'quiet)
             ,@body
             (should-not (file-exists-p trapped)))
         (ignore-errors (delete-file trapped))))))

(ert-deftest edn-bridge-hands-files-run-nothing-of-the-repository ()
  (edn-bridge-hands-tests-in-a-trap
    (should (equal (sort (split-string (edn-bridge-hands-tests-result
                                        "editor-project-files")
                                       "\n")
                         #'string-lessp)
                   '(".dir-locals.el" "a.el")))
    ;; Nor does the index count, which may be that of any repository.
    (call-process "git" nil nil nil "-c" "core.fsmonitor=false"
                  "update-index" "--add" "--cacheinfo"
                  "100644,e69de29bb2d1d6434b8b29ae775ad8c2e48c5391,gone.el")
    (let ((process-environment (cons "GIT_DIR=/" process-environment)))
      (should (equal (edn-bridge-hands-tests-result
                      "editor-project-files" :containing "el")
                     ".dir-locals.el\na.el")))))

(ert-deftest edn-bridge-hands-completion-and-folder-run-nothing-of-it ()
  (edn-bridge-hands-tests-in-a-trap
    (should (member "a.el" (edn-bridge-complete--project-files)))
    (should (equal (edn-bridge-directory) folder))))

(ert-deftest edn-bridge-hands-files-are-those-of-the-folder ()
  (edn-bridge-hands-tests-with-file (conn sent visiting "one\n")
    (should (string-search "in no Git repository: use find"
                           (edn-bridge-hands-tests-result
                            "editor-project-files")))
    (should (equal (edn-bridge-complete--project-files) '("a.el")))
    (let ((default-directory folder))
      (call-process "git" nil nil nil "init" "-q" ".")
      (make-directory "sub/deep" t)
      (write-region "x" nil "sub/deep/ä.txt" nil 'quiet)
      (write-region "x" nil "sub/no.log" nil 'quiet)
      (write-region "*.log\n" nil ".gitignore" nil 'quiet)
      (make-symbolic-link "/" "sub/root"))
    (setq default-directory (file-name-as-directory
                             (expand-file-name "sub" folder)))
    (should (equal (edn-bridge-hands-tests-result "editor-project-files")
                   "deep/ä.txt\nroot"))))

(ert-deftest edn-bridge-hands-files-end-where-git-waits ()
  (skip-unless (executable-find "mkfifo"))
  (edn-bridge-hands-tests-with-file (conn sent visiting "one\n")
    (let ((default-directory folder)
          (edn-bridge-hands--seconds 0.5))
      (call-process "git" nil nil nil "init" "-q" ".")
      (call-process "mkfifo" nil nil nil ".gitignore")
      (should (string-search "too long"
                             (edn-bridge-hands-tests-result
                              "editor-project-files")))
      (edn-bridge-test-wait
       (not (cl-find "edn-bridge list files" (process-list)
                     :key #'process-name :test #'string-prefix-p))))))

(ert-deftest edn-bridge-hands-answers-are-bounded ()
  (edn-bridge-test-with-chat (conn sent)
    (should (string-suffix-p
             "199\n(4801 more)"
             (edn-bridge-hands--lines
              (mapcar #'number-to-string (number-sequence 0 5000)) "")))
    (edn-bridge-hands--reply conn "r1" (make-string 100000 ?x) nil)
    (should (< (length (plist-get (edn-bridge-hands-tests-params
                                   sent "tool_result")
                                  :text))
               21000))
    ;; Nor do calls pile up.
    (let ((edn-bridge-hands--calls (number-sequence 1 16)))
      (edn-bridge-hands-tests-call conn "editor-buffers" nil)
      (should (string-search "busy"
                             (plist-get (edn-bridge-hands-tests-params
                                         sent "tool_result")
                                        :text))))))

(ert-deftest edn-bridge-hands-call-ends-when-the-user-types ()
  (edn-bridge-test-with-chat (conn sent)
    (let ((typed t)
          (tries 0))
      (cl-letf (((symbol-function 'edn-bridge-hands--answer)
                 (lambda (&rest _)
                   (cl-incf tries)
                   (if typed nil '(ok . "Done"))))
                ((symbol-function 'run-with-idle-timer)
                 (lambda (_seconds _repeat function)
                   (setq typed nil)
                   (run-at-time 0 nil function))))
        (should (equal (edn-bridge-hands-tests-result "editor-buffers")
                       "Done"))
        (should (= tries 2))))
    ;; What was cancelled is not made any more.
    (setq sent nil)
    (edn-bridge-hands-tests-call conn "editor-buffers" nil)
    (edn-bridge-test-event conn "request/cancelled" :session-id "s1"
                           :request-id "r1" :reason "ended")
    (sit-for 0.05)
    (should-not (edn-bridge-hands-tests-params sent "tool_result"))))

(ert-deftest edn-bridge-hands-question-of-a-tool-is-an-error ()
  (edn-bridge-test-with-chat (_conn _sent)
    (let ((answer (edn-bridge-hands--answer
                   (lambda (_) (read-string "What? ")) nil)))
      (should (eq (car answer) 'error)))
    (let ((edn-bridge-hands--seconds 0.05))
      (should (equal (edn-bridge-hands--answer
                      (lambda (_) (while t (accept-process-output nil 0.01)))
                      nil)
                     '(error . "It took too long"))))))

;;;; Tools of the user

(defmacro edn-bridge-hands-tests-with-tools (&rest body)
  "Run BODY; the tools that it defines are gone afterwards."
  (declare (indent 0) (debug t))
  `(let ((edn-bridge-hands--all (copy-sequence edn-bridge-hands--all)))
     ,@body))

(defun edn-bridge-hands-tests-tool (sent name)
  "Return the tool NAME as SENT has offered it last, or nil."
  (seq-find (lambda (tool) (equal (plist-get tool :name) name))
            (plist-get (edn-bridge-hands-tests-params sent "register_tools")
                       :tools)))

(ert-deftest edn-bridge-hands-function-is-a-tool-in-five-lines ()
  (edn-bridge-hands-tests-with-tools
    (edn-bridge-test-with-chat (conn sent)
      ;; The example of the manual.
      (edn-bridge-define-tool my-agenda (days)
        "Return the agenda entries of the next DAYS days."
        :args ((days integer "How many days"))
        :changes nil
        (format "%d entries" days))
      ;; An open chat offers it at once.
      (let ((tool (edn-bridge-hands-tests-tool sent "my-agenda")))
        (should (equal (plist-get tool :description)
                       "Return the agenda entries of the next DAYS days."))
        (should (eq (plist-get tool :read-only) t))
        (should (equal (plist-get tool :parameters)
                       '(:type "object"
                         :properties (:days (:type "integer"
                                             :description "How many days"))
                         :required ["days"]))))
      (should (equal (edn-bridge-hands-tests-result "my-agenda" :days 3)
                     "3 entries"))
      (pcase-dolist (`(,days . ,text)
                     '((nil . "The argument days is missing")
                       ("3" . "The argument days is no integer")))
        (should (equal (edn-bridge-hands-tests-result "my-agenda" :days days)
                       text))
        (should (eq (plist-get (edn-bridge-hands-tests-params sent "tool_result")
                               :is-error)
                    t)))
      ;; Defined again, it takes the place of the first.
      (edn-bridge-define-tool my-agenda ()
        "Changes the agenda."
        'changed)
      (should (eq (plist-get (edn-bridge-hands-tests-tool sent "my-agenda")
                             :read-only)
                  :false))
      (should (equal (edn-bridge-hands-tests-result "my-agenda") "changed")))))

(ert-deftest edn-bridge-hands-wrong-definitions-are-errors ()
  (dolist (form '((edn-bridge-define-tool my-tool (days) "Text." days)
                  (edn-bridge-define-tool my-tool (&rest days) "Text." days)
                  (edn-bridge-define-tool my-tool ()
                    "Text." :args ((days integer "Days")) nil)
                  (edn-bridge-define-tool my-tool (days)
                    "Text." :args ((days date "Days")) days)
                  (edn-bridge-define-tool my-tool (days)
                    "Text." :args ((days integer)) days)
                  (edn-bridge-define-tool my-tool () "Text." :colour nil 1)
                  (edn-bridge-define-tool my/tool () "Text." 1)))
    (ert-info ((format "%S" form))
      (should-error (macroexpand-1 form)))))

(ert-deftest edn-bridge-hands-call-that-changes-is-made-once ()
  (edn-bridge-hands-tests-with-tools
    (let ((count 0))
      (defvar edn-bridge-hands-tests--count)
      (setq edn-bridge-hands-tests--count 0)
      (edn-bridge-define-tool my-change ()
        "Changes something."
        (setq edn-bridge-hands-tests--count (1+ edn-bridge-hands-tests--count)))
      (edn-bridge-test-with-chat (conn sent)
        ;; The user is typing.
        (let ((unread-command-events (list ?a)))
          (edn-bridge-hands--answer
           (edn-bridge-hands-tool-function
            (car (last edn-bridge-hands--all)))
           nil t)
          (setq count edn-bridge-hands-tests--count))
        (should (= count 1))))))

(ert-deftest edn-bridge-hands-elisp-docs-are-there-if-chosen ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-hands-offer)
    (should-not (edn-bridge-hands-tests-tool sent "editor-elisp-docs"))
    (should-not (edn-bridge-hands-tests-tool sent "editor-elisp-eval"))
    (setq-local edn-bridge-hands-tools '(elisp-docs))
    (should (string-match-p
             "\\`Function (car LIST)\\(.*\n\\)+.*car"
             (edn-bridge-hands-tests-result "editor-elisp-docs" :symbol "car")))
    (should (string-match-p
             "\\`Option edn-bridge-program"
             (edn-bridge-hands-tests-result "editor-elisp-docs"
                                            :symbol "edn-bridge-program")))
    (should (string-match-p
             "knows no symbol"
             (edn-bridge-hands-tests-result "editor-elisp-docs"
                                            :symbol "no-such-symbol-anywhere")))))

(ert-deftest edn-bridge-hands-evaluation-asks-each-time ()
  (edn-bridge-test-with-chat (conn sent)
    (setq-local edn-bridge-hands-tools '(elisp-eval))
    (cl-flet ((call (id)
                (setq sent nil)
                (edn-bridge-test-event
                 conn "tool/requested" :session-id "s1" :request-id id
                 :tool-id (if (equal id "r9") "t1" id) :tool-name "editor-elisp-eval"
                 :arguments '(:code "(setq x-tests 1) (+ 40 2)")))
              (result () (edn-bridge-hands-tests-params sent "tool_result")))
      ;; A rule, or yolo, has let it through.
      (dotimes (index 2)
        (call (format "r%d" index))
        (sit-for 0.05)
        (should-not (result))
        (should (string-search "(setq x-tests 1) (+ 40 2)"
                               (edn-bridge-test-transcript)))
        (goto-char (edn-bridge-transcript-end))
        (search-backward "[Run it once")
        (push-button (1+ (point)))
        (edn-bridge-test-wait (result))
        (should (equal (plist-get (result) :text) "42")))
      (call "r5")
      (goto-char (edn-bridge-transcript-end))
      (search-backward "[Refuse")
      (push-button (1+ (point)))
      (should (equal (plist-get (result) :text) "The user refused this call"))
      ;; The bridge has asked about this very call.
      (edn-bridge-test-ask conn "approve-tool" '(:tool "editor-elisp-eval" :tool-id "t1"))
      (call "r9")
      (edn-bridge-test-wait (result))
      (should (equal (plist-get (result) :text) "42")))))

(ert-deftest edn-bridge-hands-live-evaluation-is-asked-about-once ()
  (edn-bridge-live-tests-with-program "elisp.edn"
    (dolist (mode '("ask" "yolo"))
      (let ((edn-bridge-program-args
             (append edn-bridge-program-args (list "--mode" mode)))
            (edn-bridge-hands-tools '(elisp-eval)))
        (with-current-buffer (edn-bridge-chat-buffer t)
          (edn-bridge-live-tests-wait-ready)
          (edn-bridge-transcript-set-draft "Evaluate.")
          (edn-bridge-input-send)
          (edn-bridge-test-wait
           (string-search (if (equal mode "ask") "[Allow once" "[Run it once")
                          (buffer-string)))
          (edn-bridge-test-push (if (equal mode "ask") "Allow once" "Run it once"))
          (edn-bridge-test-wait (string-search "It is done." (buffer-string)))
          (should (eq (equal mode "yolo")
                      (and (string-search "calls editor-elisp-eval in this Emacs"
                                          (buffer-string))
                           t)))
          (edn-bridge-tools-toggle t)
          (should (string-match-p "^ *42$" (buffer-string))))))))

(provide 'edn-bridge-hands-tests)

;;; edn-bridge-hands-tests.el ends here
