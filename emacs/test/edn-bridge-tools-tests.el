;;; edn-bridge-tools-tests.el --- Tests of tool calls  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Code:

(require 'edn-bridge-test-support)

(defun edn-bridge-tools-tests-call (conn)
  "Have CONN receive a tool call and its result."
  (edn-bridge-test-event conn "tool/start" :session-id "s1" :tool-id "c1"
                         :tool-name "bash" :call-summary "ls -la")
  (edn-bridge-test-event conn "tool/executing" :session-id "s1" :tool-id "c1"
                         :tool-name "bash" :call-summary "ls -la")
  (edn-bridge-test-event conn "tool/result" :session-id "s1" :tool-id "c1"
                         :tool-name "bash" :call-summary "ls -la"
                         :content [] :is-error :false
                         :result-text "src/main.rs:12:5: found\nmore"))

(ert-deftest edn-bridge-tools-shows-a-call-in-a-line ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "assistant/delta" :session-id "s1" :text "Look:")
    (edn-bridge-tools-tests-call conn)
    (edn-bridge-test-event conn "assistant/delta" :session-id "s1" :text "Done")
    (should (equal (edn-bridge-test-transcript)
                   (concat "Assistant\nLook:\n\n▸ bash     ls -la done\n\n"
                           "Done")))
    (should-not (edn-bridge-tools--call-marker (edn-bridge-tools--get "c1")))))

(ert-deftest edn-bridge-tools-waits-for-the-arguments-of-a-call ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "tool/start" :session-id "s1" :tool-id "c1"
                           :tool-name "bash" :call-summary "bash {}")
    (should (equal (edn-bridge-test-transcript) "Assistant\n▸ bash      …\n"))
    (edn-bridge-test-event conn "tool/executing" :session-id "s1" :tool-id "c1"
                           :tool-name "bash" :call-summary "ls -la")
    (should (equal (edn-bridge-test-transcript) "Assistant\n▸ bash     ls -la running\n"))))

(ert-deftest edn-bridge-tools-a-call-that-was-cut-is-gone ()
  (dolist (before '(nil t))
    (edn-bridge-test-with-chat (conn _sent)
      (when before
        (edn-bridge-tools-tests-call conn))
      (dolist (id '("c2" "c3"))
        (edn-bridge-test-event conn "tool/start" :session-id "s1" :tool-id id
                               :tool-name "bash" :call-summary "bash {}"))
      (edn-bridge-test-event conn "assistant/message" :session-id "s1"
                             :role "assistant" :stop-reason "aborted"
                             :entry-id "e1" :content [])
      (should (equal (edn-bridge-test-transcript)
                     (if before
                         "Assistant\n▸ bash     ls -la done\n\n(aborted)\n"
                       "Assistant\n\n(aborted)\n"))))))

(ert-deftest edn-bridge-tools-holds-output-back-until-it-is-unfolded ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-tools-tests-call conn)
    (should-not (string-search "found" (edn-bridge-test-transcript)))
    (let ((folded (edn-bridge-test-transcript)))
      (goto-char (point-max))
      (edn-bridge-tools-toggle)
      (should (equal (edn-bridge-test-transcript)
                     (concat "Assistant\n▾ bash     ls -la done\n"
                             "src/main.rs:12:5: found\nmore\n")))
      (goto-char (point-min))
      (edn-bridge-tools-toggle)
      (should (equal (edn-bridge-test-transcript) folded))
      (should (= (point) (point-min))))
    (should-error (insert "x") :type 'text-read-only)))

(ert-deftest edn-bridge-tools-updates-while-unfolded ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-transcript-set-draft "draft")
    (edn-bridge-test-event conn "tool/executing" :session-id "s1" :tool-id "c1"
                           :tool-name "bash" :call-summary "make")
    (edn-bridge-tools-toggle)
    (dolist (text '("one\n" "one\ntwo\n"))
      (edn-bridge-test-event conn "tool/update" :session-id "s1" :tool-id "c1"
                             :tool-name "bash" :call-summary "make"
                             :is-error :false :result-text text))
    (should (equal (edn-bridge-test-transcript)
                   "Assistant\n▾ bash     make running\none\ntwo\n"))
    (should (equal (edn-bridge-transcript-draft) "draft"))))

(ert-deftest edn-bridge-tools-shows-edits-as-diffs ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "tool/result" :session-id "s1" :tool-id "c1"
                           :tool-name "edit" :call-summary "a.txt"
                           :is-error :false :result-text "ok"
                           :details '(:diff "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n"))
    (goto-char (point-min))
    (search-forward "+y")
    (should (memq 'edn-bridge-diff-added
                  (ensure-list (get-text-property (1- (point)) 'face))))))

(ert-deftest edn-bridge-tools-shows-long-outputs-and-diffs-by-a-button ()
  (edn-bridge-test-with-chat (conn _sent)
    (let ((edn-bridge-tools-output-limit 10))
      (edn-bridge-test-event conn "tool/result" :session-id "s1" :tool-id "c1"
                             :tool-name "bash" :call-summary "x"
                             :is-error :false :result-text "0123456789abcdef")
      (edn-bridge-tools-toggle)
      ;; The end is what one needs.
      (should (string-match-p "^01\n\\[6 characters between\\]\n89abcdef\n"
                              (edn-bridge-test-transcript)))
      (save-window-excursion
        (edn-bridge-test-push "6 char")
        (with-current-buffer (window-buffer)
          (should (equal (buffer-string) "0123456789abcdef"))
          (kill-buffer)))))
  (edn-bridge-test-with-chat (conn _sent)
    (let ((diff (concat "--- a\n+++ b\n@@ -1 +1 @@\n"
                        (mapconcat #'identity (make-list 20000 "+new\n") ""))))
      (edn-bridge-test-ask conn "approve"
                                  (list :tool "edit" :tool-id "c1" :diff diff))
      (should (< (buffer-size) 70000))
      (save-window-excursion
        (edn-bridge-test-push "The whole diff")
        (with-current-buffer (window-buffer)
          (should (derived-mode-p 'diff-mode))
          (should (= (buffer-size) (length diff)))
          (kill-buffer))))))

(ert-deftest edn-bridge-tools-output-is-cut-where-lines-end ()
  (let ((edn-bridge-tools-output-limit 40))
    (should (equal (edn-bridge-tools--cut
                    (mapconcat (lambda (n) (format "line %02d\n" n))
                               (number-sequence 1 20) ""))
                   (cons "line 01\n" "line 18\nline 19\nline 20\n")))))

(ert-deftest edn-bridge-tools-outcome-says-how-a-call-ended ()
  (pcase-dolist (`(,details ,text ,failed ,outcome ,bad)
                 `(((:exit-code 0) "" :false "done" nil)
                   ((:exit-code 2) "" t "exit 2" t)
                   ((:code "denied-tool-call" :denied t) "" t "rejected" nil)
                   ((:code "aborted") "" t "stopped" nil)
                   ;; In the journal only the text says how it ended.
                   (nil "The call was denied. No." t "rejected" nil)
                   (nil "The call was not run: the user aborted the turn."
                        t "not run" nil)
                   (nil ,(concat (make-string 500 ?x) "\n[ended by the user]")
                        t "stopped" nil)
                   (nil "x\n[exit status 3]" t "exit 3" t)
                   (nil "x\n[exit status 3]" :false "done" nil)
                   (nil "[ended by signal 9]" t "signal 9" t)
                   (nil "[ended after 5 seconds]" t "timed out" t)
                   (nil "" t "failed" t)))
    (edn-bridge-test-with-chat (conn _sent)
      (edn-bridge-test-event conn "tool/result" :session-id "s1" :tool-id "c1"
                             :tool-name "bash" :call-summary "x"
                             :is-error failed :result-text text
                             :details details)
      (ert-info (text)
        (should (equal (edn-bridge-test-transcript)
                       (format "Assistant\n▸ bash     x %s\n" outcome)))
        (goto-char (point-min))
        (search-forward outcome)
        (should (eq (and bad t)
                    (eq (get-text-property (1- (point)) 'face)
                        'edn-bridge-tools-failed)))))))

(ert-deftest edn-bridge-tools-ids-that-come-again-are-other-calls ()
  (cl-flet ((call (summary)
              (list :role "assistant"
                    :content (vector (list :type :tool-call :id "c1"
                                           :name "bash"
                                           :arguments (list :command summary)))))
            (result (text failed)
              (list :role "tool" :tool-call-id "c1" :is-error failed
                    :content (vector (list :type :text :text text)))))
    (edn-bridge-test-with-chat (conn _sent)
      (edn-bridge-test-event
       conn "session/rehydrated" :session-id "s1"
       :messages (vector (call "one") (result "first" t)
                         (call "two") (result "second" :false)))
      (should (equal (edn-bridge-test-transcript)
                     "Assistant\n▸ bash     one failed\n▸ bash     two done\n"))
      (should-not (edn-bridge-tools--call-marker (edn-bridge-tools--get "c1")))
      (goto-char (point-min))
      (search-forward "one")
      (edn-bridge-tools-toggle)
      (should (equal (edn-bridge-test-transcript)
                     "Assistant\n▾ bash     one failed\nfirst\n▸ bash     two done\n")))))

(ert-deftest edn-bridge-tools-follows-places ()
  (edn-bridge-test-with-chat (conn _sent)
    (let* ((folder (make-temp-file "edn-bridge" t))
           (default-directory (file-name-as-directory folder)))
      (unwind-protect
          (progn
            (make-directory "src")
            (write-region "1\n2\n3\n" nil "src/main.rs" nil 'quiet)
            (edn-bridge-test-event
             conn "tool/result" :session-id "s1" :tool-id "c1" :tool-name "bash"
             :call-summary "x" :is-error :false
             :result-text "see (src/main.rs:3) there\n")
            (edn-bridge-tools-toggle)
            (goto-char (point-min))
            (search-forward "main")
            (save-window-excursion
              (edn-bridge-tools-follow)
              (should (equal (line-number-at-pos) 3))
              (should (looking-at-p "3"))
              (kill-buffer)))
        (delete-directory folder t)))))

(ert-deftest edn-bridge-tools-shows-calls-of-the-journal ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event
     conn "session/rehydrated" :session-id "s1"
     :messages
     [(:id "e1" :role "assistant"
           :content [(:type :tool-call :id "c1" :name "bash"
                            :arguments (:command "ls -la"))
                     (:type :tool-call :id "c2" :name "read"
                            :arguments (:path "a.txt"))])
      (:id "e2" :role "tool" :tool-call-id "c1" :tool-name "bash"
           :is-error :false :content [(:type :text :text "out 1")])
      (:id "e3" :role "tool" :tool-call-id "c2" :tool-name "read"
           :is-error t :content [(:type :text :text "out 2")])])
    (should (equal (edn-bridge-test-transcript)
                   "Assistant\n▸ bash     ls -la done\n▸ read     a.txt failed\n"))
    (goto-char (point-min))
    (search-forward "ls -la")
    (edn-bridge-tools-toggle)
    (should (string-match-p "out 1" (edn-bridge-test-transcript)))))

(ert-deftest edn-bridge-tools-shows-edits-of-the-journal-as-diffs ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event
     conn "session/rehydrated" :session-id "s1"
     :messages
     [(:id "e1" :role "assistant"
           :content [(:type :tool-call :id "c1" :name "edit"
                            :arguments (:path "a.txt"
                                        :edits [(:old "one\n" :new "two\n")
                                                (:old "x" :new "y\nz")]))])
      (:id "e2" :role "tool" :tool-call-id "c1" :tool-name "edit"
           :is-error :false
           :content [(:type :text :text "Edited a.txt (2 replacements).")])])
    (should (equal (edn-bridge-test-transcript)
                   (concat "Assistant\n▾ edit     a.txt (2 places) done\n"
                           "--- a.txt\n@@\n-one\n+two\n@@\n-x\n+y\n+z\n")))))

(ert-deftest edn-bridge-tools-journal-tells-time-and-written-diff ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event
     conn "session/rehydrated" :session-id "s1"
     :messages
     [(:id "e1" :role "assistant"
           :content [(:type :tool-call :id "c1" :name "write"
                            :arguments (:path "a.txt" :content "two\n"))])
      (:id "e2" :role "tool" :tool-call-id "c1" :tool-name "write"
           :is-error :false :duration-ms 1234
           :details (:diff "--- a/a.txt\n+++ b/a.txt\n@@\n-one\n+mine\n"
                     :diff-size 99999 :diff-handle "o-1")
           :content [(:type :text :text "Wrote a.txt (5 bytes).")])])
    (should (equal (edn-bridge-test-transcript)
                   (concat "Assistant\n▾ write    a.txt done 1.2s\n"
                           "--- a/a.txt\n+++ b/a.txt\n@@\n-one\n+mine\n"
                           "[The whole diff, which was cut here]\n")))))

(ert-deftest edn-bridge-tools-time-is-what-the-bridge-measured ()
  (edn-bridge-test-with-chat (conn _sent)
    (let ((now 0.0))
      (cl-letf (((symbol-function 'float-time) (lambda (&rest _) now)))
        (dolist (event '(("tool/start") ("tool/executing")
                         ;; Its result waits for another call's answer.
                         ("tool/result" :is-error :false :result-text "x"
                          :duration-ms 200)))
          (apply #'edn-bridge-test-event conn (car event) :session-id "s1"
                 :tool-id "c1" :tool-name "read" :call-summary "a.txt"
                 (cdr event))
          (setq now (+ now 60)))))
    (should (equal (edn-bridge-test-transcript)
                   "Assistant\n▸ read     a.txt done 0.2s\n"))))

(ert-deftest edn-bridge-tools-result-on-later-page-shows-call ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-test-event
     conn "session/rehydrated" :session-id "s1" :more t
     :messages [(:id "e2" :role "tool" :tool-call-id "c1" :tool-name "bash"
                     :is-error :false :content [(:type :text :text "out")])
                (:id "e3" :role "user" :content [(:type :text :text "Hi")])]
     :tool-calls '(:c1 (:tool-id "c1" :tool-name "bash" :call-summary "bash"
                        :is-error :false :result-text "out")))
    (edn-bridge-messages-show-earlier)
    (edn-bridge-test-answer
     conn sent "get_messages" :more :false
     :messages [(:id "e1" :role "assistant"
                     :content [(:type :tool-call :id "c1" :name "bash"
                                      :arguments (:command "ls -la"))])])
    (should (equal (edn-bridge-test-transcript)
                   "Assistant\n▸ bash     ls -la done\n\nYou\nHi\n"))))

(ert-deftest edn-bridge-tools-shows-a-call-in-its-place-in-any-window ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-transcript-set-draft "draft")
    (save-window-excursion
      (let ((other (split-window)))
        (set-window-buffer other (current-buffer))
        (set-window-point other (point-max))
        (edn-bridge-tools-tests-call conn)))
    (should (equal (edn-bridge-test-transcript) "Assistant\n▸ bash     ls -la done\n"))
    (should (equal (edn-bridge-transcript-draft) "draft"))))

(ert-deftest edn-bridge-tools-repeated-id-is-new-call ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-tools-tests-call conn)
    (edn-bridge-test-event conn "tool/start" :session-id "s1" :tool-id "c1"
                           :tool-name "bash" :call-summary "pwd")
    (should (equal (edn-bridge-test-transcript)
                   "Assistant\n▸ bash     ls -la done\n▸ bash     pwd …\n"))))

;;;; Buffers

(defmacro edn-bridge-tools-tests-with-file (spec &rest body)
  "Run BODY in a chat with a file that a buffer visits.
SPEC is (CONN FILE BUFFER)."
  (declare (indent 1) (debug t))
  (pcase-let ((`(,conn ,file ,buffer) spec))
    `(edn-bridge-test-with-chat (,conn _sent)
       (let* ((folder (file-name-as-directory (make-temp-file "edn-bridge" t)))
              (,file (expand-file-name "a.txt" folder))
              (,buffer nil)
              (inhibit-message t))
         (setq default-directory folder)
         (write-region "old\n" nil ,file nil 'quiet)
         (set-file-times ,file (time-subtract nil 100))
         (setq ,buffer (find-file-noselect ,file))
         (unwind-protect
             (progn ,@body)
           (with-current-buffer ,buffer
             (set-buffer-modified-p nil)
             (kill-buffer))
           (delete-directory folder t))))))

(ert-deftest edn-bridge-buffers-unsaved-are-left-alone-and-told ()
  (edn-bridge-tools-tests-with-file (conn file buffer)
    (with-current-buffer buffer (insert "mine "))
    (edn-bridge-test-event conn "tool/start" :session-id "s1" :tool-id "c1"
                           :tool-name "edit" :parsed-args '(:path "a.txt"))
    (edn-bridge-test-ask conn "approve"
                         '(:tool "edit" :tool-id "c1" :diff "@@ -1 +1 @@\n"))
    (should (string-match-p
             "^! a.txt has unsaved changes in Emacs; .*\n\\[Allow once"
             (edn-bridge-test-transcript)))))

(defun edn-bridge-tools-tests-seen ()
  "Return the transcript without what is invisible."
  (let ((text "")
        (place (point-min)))
    (while (< place (edn-bridge-transcript-end))
      (let ((next (next-single-property-change place 'invisible nil
                                               (edn-bridge-transcript-end))))
        (unless (invisible-p place)
          (setq text (concat text (buffer-substring-no-properties place next))))
        (setq place next)))
    text))

(ert-deftest edn-bridge-tools-thinking-folds-when-it-is-complete ()
  (edn-bridge-test-with-chat (conn _sent)
    (let ((whole "Thought\nOne.\nTwo.\n\nAssistant\nDone.\n")
          (folded "Thought\n\nAssistant\nDone.\n"))
      (edn-bridge-test-event conn "assistant/thinking-delta" :text "One.\nTwo.")
      (should (string-search "Thinking\nOne.\nTwo."
                             (edn-bridge-tools-tests-seen)))
      (edn-bridge-test-event conn "assistant/delta" :text "Done.")
      (edn-bridge-test-event conn "assistant/message" :role "assistant"
                             :content "Done.")
      (should (equal (edn-bridge-tools-tests-seen) folded))
      (should (equal (edn-bridge-test-transcript) whole))
      ;; By its keys, by the key of tool calls, and all at once.
      (goto-char (point-min))
      (should (eq (key-binding (kbd "TAB"))
                  #'edn-bridge-messages-toggle-thinking))
      (dolist (expected (list whole folded whole folded))
        (goto-char (point-min))
        (edn-bridge-tools-toggle)
        (should (equal (edn-bridge-tools-tests-seen) expected)))
      (goto-char (point-max))
      (dolist (expected (list whole folded))
        (edn-bridge-tools-toggle 'all)
        (should (equal (edn-bridge-tools-tests-seen) expected)))
      ;; The journal shows the same.
      (edn-bridge-test-event
       conn "session/rehydrated" :session-id "s1"
       :messages [(:id "e1" :role "assistant"
                       :content [(:type :thinking :text "One.\nTwo.")
                                 (:type :text :text "Done.")])])
      (should (equal (edn-bridge-tools-tests-seen) folded))
      (should (equal (edn-bridge-test-transcript) whole)))))

(ert-deftest edn-bridge-tools-thinking-that-is-read-stays-unfolded ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "assistant/thinking-delta" :text "One.\nTwo.")
    (goto-char (point-min))
    (search-forward "One")
    (edn-bridge-test-event conn "assistant/delta" :text "Done.")
    (should (string-search "Two." (edn-bridge-tools-tests-seen)))))

(ert-deftest edn-bridge-tools-all-calls-are-folded-at-once ()
  (edn-bridge-test-with-chat (conn _sent)
    (dolist (id '("c1" "c2"))
      (edn-bridge-test-event conn "tool/result" :tool-id id :tool-name "edit"
                             :call-summary "edit a" :result-text "output"))
    (let ((unfolded (edn-bridge-test-transcript)))
      (should (string-search "output" unfolded))
      (edn-bridge-tools-toggle 'all)
      (should-not (string-search "output" (edn-bridge-test-transcript)))
      (edn-bridge-tools-toggle 'all)
      (should (equal (edn-bridge-test-transcript) unfolded)))))

(ert-deftest edn-bridge-tools-rejected-edit-shows-its-diff-folded ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "tool/start" :session-id "s1" :tool-id "t1"
                           :tool-name "edit"
                           :parsed-args '(:path "a.rs"
                                          :edits [(:old "one" :new "two")]))
    (edn-bridge-test-event conn "tool/result" :session-id "s1" :tool-id "t1"
                           :tool-name "edit" :is-error t
                           :result-text "The call was denied. Not now."
                           :details '(:code "denied-tool-call" :denied t))
    (should (string-search "rejected" (edn-bridge-test-transcript)))
    (should-not (string-search "-one" (edn-bridge-test-transcript)))
    (edn-bridge-tools-toggle)
    (should (string-search "rejected: Not now.\n--- a.rs\n@@\n-one\n+two\n"
                           (edn-bridge-test-transcript)))))

(ert-deftest edn-bridge-tools-rows-follow-the-windows-width ()
  (save-window-excursion
    (edn-bridge-test-with-chat (conn _sent)
      (let ((columns 100))
        (cl-letf (((symbol-function 'edn-bridge-tools-width)
                   (lambda () columns)))
          (set-window-buffer (selected-window) (current-buffer))
          (dotimes (index 300)
            (dolist (topic '("tool/start" "tool/result"))
              (edn-bridge-test-event
               conn topic :session-id "s1"
               :tool-id (format "t%d" index) :tool-name "bash"
               :call-summary (make-string 200 ?x)
               :result-text "ok" :is-error :false)))
          (edn-bridge-transcript-set-draft "a draft")
          (cl-flet ((widest ()
                      (save-excursion
                        (goto-char (point-min))
                        (let ((widest 0))
                          (while (re-search-forward "x+" nil t)
                            (setq widest (max widest
                                              (- (match-end 0)
                                                 (match-beginning 0)))))
                          widest))))
            (should (< 60 (widest) 100))
            (let ((before (widest)))
              (setq columns 50)
              (edn-bridge-transcript--on-resize (selected-window))
              ;; What is seen is done at once, the rest a slice at a time.
              (save-excursion
                (goto-char (edn-bridge-transcript-end))
                (re-search-backward "x+")
                (beginning-of-line)
                (re-search-forward "x+")
                (should (< (- (match-end 0) (match-beginning 0)) 50)))
              (while edn-bridge-transcript--fitting
                (edn-bridge-transcript--fit-rest (current-buffer)))
              (should (< (widest) 50))
              (should (equal (edn-bridge-transcript-draft) "a draft"))
              (setq columns 100)
              (edn-bridge-transcript--on-resize (selected-window))
              (while edn-bridge-transcript--fitting
                (edn-bridge-transcript--fit-rest (current-buffer)))
              (should (= (widest) before)))))))))

(provide 'edn-bridge-tools-tests)

;;; edn-bridge-tools-tests.el ends here
